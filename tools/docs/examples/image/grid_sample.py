# %% Function
import numpy as np

import baracuda as bk

x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
grid = np.array([[[[0, 0], [-1, -1]], [[0.5, 0], [2, 2]]]], dtype=np.float32)  # (x, y) of four positions
print(bk.grid_sample(x, grid, align_corners=True))
print(bk.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True))

# %% Gradient
dy = np.ones((1, 1, 2, 2), np.float32)
dx, dgrid = bk.grid_sample_backward(dy, x, grid, align_corners=True)
print(dx, dgrid, sep="\n")

# %% Plan
descriptor = bk.GridSampleDescriptor((1, 1, 3, 3), (1, 1, 2, 2), align_corners=True, element=bk.f32)
y = bk.empty((1, 1, 2, 2), bk.f32)
args = bk.GridSampleArgs(x=bk.upload(x), grid=bk.upload(grid), y=y)
bk.GridSamplePlan.select(None, descriptor).run(None, None, args)
print(bk.download(y))

# %% Plan of the gradient
descriptor = bk.GridSampleBackwardDescriptor((1, 1, 3, 3), (1, 1, 2, 2), align_corners=True, element=bk.f32)
plan = bk.GridSampleBackwardPlan.select(None, descriptor)
args = bk.GridSampleBackwardArgs(dy=bk.upload(dy), grid=args.grid, dx=bk.empty((1, 1, 3, 3), bk.f32))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.dx))
