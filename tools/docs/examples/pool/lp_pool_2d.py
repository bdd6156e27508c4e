# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4))
y = bk.empty((1, 1, 1, 2), bk.f32)
plan = bk.LpPool2dPlan.select(None, bk.LpPool2dDescriptor(1, 1, 2, 4, 2, 2, 2, 2, norm_p=2.0, element=bk.f32))
plan.run(None, None, bk.LpPool2dArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient
dy, dx = bk.upload(np.ones((1, 1, 1, 2), np.float32)), bk.zeros((1, 1, 2, 4), bk.f32)  # it adds to dx
plan = bk.LpPool2dBackwardPlan.select(
    None, bk.LpPool2dBackwardDescriptor(1, 1, 2, 4, 2, 2, 2, 2, norm_p=2.0, element=bk.f32)
)
plan.run(None, None, bk.LpPool2dBackwardArgs(x=x, y=y, dy=dy, dx=dx))
print(bk.download(dx))
