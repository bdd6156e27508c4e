# %% Functions
import numpy as np

import baracuda as bk

a = np.array([[1, 2], [2, 4], [3, 6]], np.float32)
print(bk.linalg.pinv(a))
print(bk.linalg.matrix_rank(a))

# %% Tolerances, ranks and info in one call
y, rank, info = bk.linalg_pinv(a, atol=1.0, rtol=1e-3)
print(rank, info)

# %% Plan
plan = bk.PinvPlan.select(None, bk.PinvDescriptor(3, 2, element=bk.f32))
y, rank = bk.empty((1, 2, 3), bk.f32), bk.empty((1,), bk.i32)
plan.run(None, bk.workspace(plan), bk.PinvArgs(a=bk.upload(a[None]), y=y, rank=rank))
print(bk.download(y), bk.download(rank))
