# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
print(bk.flip(x))
print(bk.flip(x, axis=1))

# %% Plan
x, y = bk.upload(x), bk.empty((2, 3), bk.f32)
plan = bk.FlipPlan.select(None, bk.FlipDescriptor((2, 3), flip_axes=(False, True), element=bk.f32))
plan.run(None, None, bk.FlipArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient
dx = bk.empty((2, 3), bk.f32)
back = bk.FlipBackwardPlan.select(None, bk.FlipBackwardDescriptor((2, 3), flip_axes=(False, True), element=bk.f32))
back.run(None, None, bk.FlipBackwardArgs(dy=y, dx=dx))
print(bk.download(dx))
