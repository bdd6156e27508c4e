# %% Functions
import numpy as np

import baracuda as bk

a = np.array([[[2, 1, 0], [1, 2, 1], [0, 1, 2]], [[1, 0, 0], [0, 1, 0], [0, 0, 4]]], np.float32)
w, v = bk.linalg.eigh(a)
print(w)
print(np.abs(a @ v - v * w[:, None]).max())
print(bk.linalg.eigvalsh(a, UPLO="U"))

# %% A bad member of a batch
spoilt = a.copy()
spoilt[0, 2, 0] = np.nan
print(bk.linalg.eigh_ex(spoilt).info)

# %% Triangles and info in one call
w, v, info = bk.linalg_eigh(a, upper=True)
print(w, info)

# %% Plan
plan = bk.EighPlan.select(None, bk.EighDescriptor(3, 2, element=bk.f32))
w, v = bk.empty((2, 3), bk.f32), bk.empty((2, 3, 3), bk.f32)
plan.run(None, bk.workspace(plan), bk.EighArgs(a=bk.upload(a), w=w, v=v))
print(bk.download(w))
