# %% Function
import numpy as np

import baracuda as bk

rate = np.array([0, 0.5, 3, 40, 1e6], np.float32)
print(bk.random.poisson(rate, generator=bk.Generator(7)))
print(bk.poisson(rate, seed=7))
