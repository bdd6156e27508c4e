# %% Plan
import numpy as np

import baracuda as bk

indices = bk.upload(np.array([7], np.int64).reshape(1, 1, 1, 1, 1))
dy, dx = bk.upload(np.ones((1, 1, 1, 1, 1), np.float32)), bk.zeros((1, 1, 2, 2, 2), bk.f32)  # it adds to dx
descriptor = bk.FractionalMaxPool3dBackwardDescriptor(1, 1, 2, 2, 2, 1, 1, 1, element=bk.f32)
plan = bk.FractionalMaxPool3dBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.FractionalMaxPool3dBackwardArgs(dy=dy, indices=indices, dx=dx))
print(bk.download(dx))
