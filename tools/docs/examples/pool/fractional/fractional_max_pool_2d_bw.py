# %% Plan
import numpy as np

import baracuda as bk

indices = bk.upload(np.array([5, 7], np.int64).reshape(1, 1, 1, 2))
dy, dx = bk.upload(np.ones((1, 1, 1, 2), np.float32)), bk.zeros((1, 1, 2, 4), bk.f32)  # it adds to dx
descriptor = bk.FractionalMaxPool2dBackwardDescriptor(1, 1, 2, 4, 1, 2, element=bk.f32)
plan = bk.FractionalMaxPool2dBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.FractionalMaxPool2dBackwardArgs(dy=dy, indices=indices, dx=dx))
print(bk.download(dx))
