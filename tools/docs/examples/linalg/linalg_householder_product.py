# %% Function
import numpy as np

import baracuda as bk

a = np.array([[3.0, 1.0], [4.0, 2.0], [0.0, 1.0]])
packed, tau = bk.linalg_qr_factor(a)
q = bk.linalg_householder_product(packed, tau)
print(np.round(q.T @ q, 12) + 0.0)
