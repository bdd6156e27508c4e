# %% Function
import numpy as np

import baracuda as bk

a = np.array([[3.0, 1.0], [4.0, 2.0]])
packed, tau = bk.linalg_qr_factor(a)
print(np.round(bk.linalg_ormqr(packed, tau, a, adjoint=True), 12))  # R
