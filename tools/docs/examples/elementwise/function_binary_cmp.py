# %% Function
import numpy as np

import baracuda as bk

a, b = np.array([1, 2, 3, np.nan], dtype=np.float32), np.float32(2)
print(bk.eq(a, b))
