# %% Function
import numpy as np

import baracuda as bk

theta = np.array([[[1, 0, 0], [0, 1, 0]]], dtype=np.float32)  # the identity
print(bk.affine_grid(theta, 2, 3, align_corners=True))

# %% Gradient
dy = np.ones((1, 2, 3, 2), np.float32)
print(bk.affine_grid_backward(dy, 2, 3, align_corners=True))

# %% Plan
grid = bk.empty((1, 2, 3, 2), bk.f32)
plan = bk.AffineGridPlan.select(None, bk.AffineGridDescriptor(1, 2, 2, 3, align_corners=True, element=bk.f32))
plan.run(None, None, bk.AffineGridArgs(theta=bk.upload(theta), grid=grid))
print(bk.download(grid))

# %% Plan of the gradient
descriptor = bk.AffineGridBackwardDescriptor(1, 2, 2, 3, align_corners=True, element=bk.f32)
plan = bk.AffineGridBackwardPlan.select(None, descriptor)
dtheta = bk.empty((1, 2, 3), bk.f32)
plan.run(None, bk.workspace(plan), bk.AffineGridBackwardArgs(dgrid=bk.upload(dy), dtheta=dtheta))
print(bk.download(dtheta))
