# %% Function
import numpy as np

import baracuda as bk

a = np.array([[2.0, 0.0], [1.0, 4.0]])
print(bk.linalg_solve_triangular(a, np.array([[2.0], [9.0]]), upper=False))
