# %% Function
import numpy as np

import baracuda as bk

theta = np.array([[[1, 0, 0], [0, 1, 0]]], dtype=np.float32)  # the identity
print(bk.affine_grid(theta, 2, 2))

# %% Plan
theta = bk.upload(theta)
grid = bk.empty((1, 2, 2, 2), bk.f32)
plan = bk.AffineGrid2dPlan.select(None, bk.AffineGrid2dDescriptor(1, 2, 2, element=bk.f32))
plan.run(None, None, bk.AffineGrid2dArgs(theta=theta, grid=grid))
print(bk.download(grid))
