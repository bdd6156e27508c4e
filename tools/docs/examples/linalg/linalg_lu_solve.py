# %% Function
import numpy as np

import baracuda as bk

lu, pivots, _ = bk.linalg_lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
b = np.array([[3.0], [8.0]])
print(bk.linalg_lu_solve(lu, pivots, b), bk.linalg_lu_solve(lu, pivots, b, transpose=True))
