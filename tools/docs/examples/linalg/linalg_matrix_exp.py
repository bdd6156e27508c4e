# %% Function
import numpy as np

import baracuda as bk

a = np.array([[0.0, 1.0], [0.0, 0.0]])
print(bk.linalg_matrix_exp(a))
