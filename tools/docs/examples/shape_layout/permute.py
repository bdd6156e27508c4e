# %% Function
import numpy as np

import baracuda as bk

x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
print(bk.permute(x, (2, 0, 1)).shape)

# %% Plan
x, y = bk.upload(x), bk.empty((3, 1, 2), bk.f32)
plan = bk.PermutePlan.select(None, bk.PermuteDescriptor((1, 2, 3), dims=(2, 0, 1), element=bk.f32))
plan.run(None, None, bk.PermuteArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient
dx = bk.empty((1, 2, 3), bk.f32)
back = bk.PermuteBackwardPlan.select(None, bk.PermuteBackwardDescriptor((1, 2, 3), dims=(2, 0, 1), element=bk.f32))
back.run(None, None, bk.PermuteBackwardArgs(dy=y, dx=dx))
print(bk.download(dx))
