# %% Function
import numpy as np

import baracuda as bk

a = np.array([[0.0, 1.0], [1.0, 0.0]])
ld, pivots, info = bk.linalg_ldl_factor(a)
print(ld, pivots, info)
