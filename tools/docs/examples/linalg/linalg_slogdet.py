# %% Function
import numpy as np

import baracuda as bk

sign, logabsdet = bk.linalg_slogdet(np.array([[1.0, 2.0], [4.0, 4.0]]))
print(sign, np.round(logabsdet, 12))
