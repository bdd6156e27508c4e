# %% Functions
import numpy as np

import baracuda as bk

a = np.array([[2, 1], [0, 1], [1, 1]], np.float32)
u, p = bk.linalg.polar(a)
print(u @ p)
print(bk.linalg.orthogonalize(a))
print(bk.linalg.orthogonalize(a, method="newton_schulz", steps=8))
