# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(1, 13, dtype=np.float32))
y, mask = bk.empty(12, bk.f32), bk.empty(12, bk.bool_)
plan = bk.DropoutPlan.select(None, bk.DropoutDescriptor((12,), 0.25, seed=3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.DropoutArgs(x, y, mask))
print(bk.download(y))
plan.run(None, bk.workspace(plan), bk.DropoutArgs(x, y, mask))  # the next numbers of the plan's generator
print(bk.download(mask))

# %% Plan of the gradient
dx = bk.empty(12, bk.f32)
back = bk.DropoutBackwardPlan.select(None, bk.DropoutBackwardDescriptor((12,), 0.25, element=bk.f32))
back.run(None, None, bk.DropoutBackwardArgs(x, mask, dx))
print(bk.download(dx))
