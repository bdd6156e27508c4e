# %% Function
import numpy as np

import baracuda as bk

print(bk.linalg_det(np.array([[1.0, 2.0], [4.0, 4.0]])))
