# %% Plan
import numpy as np

import baracuda as bk

images = bk.upload(np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3))
grid = bk.upload(np.array([[[[0, 0], [0.5, 0]]]], dtype=np.float32))  # (x, y) of two positions
descriptor = bk.GridSample2dDescriptor(1, 1, 3, 3, 1, 2, element=bk.f32)
y = bk.empty((1, 1, 1, 2), bk.f32)
plan = bk.GridSample2dPlan.select(None, descriptor)
plan.run(None, None, bk.GridSample2dArgs(input=images, grid=grid, output=y))
print(bk.download(y))

# %% Gradient: grid_sample_2d_backward_f32
dout = bk.upload(np.ones((1, 1, 1, 2), np.float32))
dinput, dgrid = bk.zeros((1, 1, 3, 3), bk.f32), bk.zeros((1, 1, 2, 2), bk.f32)  # both are added to
gradient = bk.GridSample2dBackwardPlan.select(None, bk.GridSample2dBackwardDescriptor(1, 1, 3, 3, 1, 2, element=bk.f32))
args = bk.GridSample2dBackwardArgs(dout=dout, input=images, grid=grid, dinput=dinput, dgrid=dgrid)
gradient.run(None, bk.workspace(gradient), args)
print(bk.download(dinput))
