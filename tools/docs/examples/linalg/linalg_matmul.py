# %% Function
import numpy as np

import baracuda as bk

a = np.array([[1j, 1.0], [0.0, 2.0]])
print(bk.linalg_matmul(a, a))
