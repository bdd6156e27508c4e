# %% Functions
import numpy as np

import baracuda as bk

a = np.array([[3, 0, 0], [0, 4, 0]], np.float32)
u, s, vh = bk.linalg.svd(a, full_matrices=False)
print(s)
print((u * s) @ vh)
print(bk.linalg.svdvals(a), bk.linalg.cond(a))

# %% All vectors and info in one call
u, s, vh, info = bk.linalg_svd(a)
print(vh.shape, info)

# %% Plan
plan = bk.SvdPlan.select(None, bk.SvdDescriptor(2, 3, element=bk.f32))
s = bk.empty((1, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.SvdArgs(a=bk.upload(a[None]), s=s))
print(bk.download(s))
