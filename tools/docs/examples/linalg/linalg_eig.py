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

# %% Plan
plan = bk.EigPlan.select(None, bk.EigDescriptor(2, element=bk.f32))
w, v = bk.empty((1, 2), bk.c32), bk.empty((1, 2, 2), bk.c32)
plan.run(None, bk.workspace(plan), bk.EigArgs(a=bk.upload(a[None]), w=w, v=v))
print(bk.download(w))
