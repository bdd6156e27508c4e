# %% Function
import numpy as np

import baracuda as bk

a = np.array([[1.0, 2.0], [4.0, 4.0], [2.0, 0.0]])
p, lower, upper = bk.linalg_lu(a)
print(p @ lower @ upper)
print(upper)
