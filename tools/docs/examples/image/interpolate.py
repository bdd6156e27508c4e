# %% Function
import numpy as np

import baracuda as bk

x = np.array([[[[0, 4], [8, 12]]]], dtype=np.float32)  # images, channels, rows, columns
print(bk.interpolate(x, size=(3, 4), mode="linear"))
print(bk.interpolate(x, scale_factor=2.0).shape)  # nearest

# %% Images of bytes
photo = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)  # rows, columns, colours
print(bk.resize(photo, size=(2, 2), mode="cubic"))  # antialiased

# %% Gradient
dy = np.ones((1, 1, 3, 4), np.float32)
print(bk.interpolate_backward(dy, x, mode="linear"))

# %% Plan
y = bk.empty((1, 1, 3, 4), bk.f32)
descriptor = bk.InterpolateDescriptor((1, 1, 2, 2), (1, 1, 3, 4), bk.ResampleMode.LINEAR, element=bk.f32)
bk.InterpolatePlan.select(None, descriptor).run(None, None, bk.InterpolateArgs(x=bk.upload(x), y=y))
print(bk.download(y))

# %% Plan of the gradient
dx = bk.empty((1, 1, 2, 2), bk.f32)
descriptor = bk.InterpolateBackwardDescriptor((1, 1, 2, 2), (1, 1, 3, 4), bk.ResampleMode.LINEAR, element=bk.f32)
plan = bk.InterpolateBackwardPlan.select(None, descriptor)
plan.run(None, bk.workspace(plan), bk.InterpolateBackwardArgs(dy=bk.upload(dy), dx=dx))
print(bk.download(dx))
