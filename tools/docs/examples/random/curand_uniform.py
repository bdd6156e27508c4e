# %% Function
import numpy as np

import baracuda as bk

seed, y = 7, np.empty(5, np.float32)
print(bk.random.uniform(seed=seed, out=y))  # in [0, 1)
