# %% Function
import numpy as np

import baracuda as bk

a = np.array([[0.0, 1.0], [1.0, 3.0]])
ld, pivots, _ = bk.linalg_ldl_factor(a)
print(bk.linalg_ldl_solve(ld, pivots, a))
