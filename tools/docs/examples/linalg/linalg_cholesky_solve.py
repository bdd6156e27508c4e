# %% Function
import numpy as np

import baracuda as bk

factor, _ = bk.linalg_cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
print(bk.linalg_cholesky_solve(factor, np.array([[8.0], [12.0]])))
