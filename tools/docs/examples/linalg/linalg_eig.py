# %% Functions
import numpy as np

import baracuda as bk

a = np.array([[0, -1], [1, 0]], np.float32)
w, v = bk.linalg.eig(a)
print(w)
print(bk.linalg.eigvals(a))

# %% Left eigenvectors
w, v, left, info = bk.linalg.eig_ex(a)
print(left.conj().T @ a - w[:, None] * left.conj().T)
