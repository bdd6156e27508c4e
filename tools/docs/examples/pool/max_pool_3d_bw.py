# %% Plan
import numpy as np

import baracuda as bk

images = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2)
x, y = bk.upload(images), bk.upload(bk.max_pool3d(images, 2))
dy, dx = bk.upload(np.ones((1, 1, 1, 1, 1), np.float32)), bk.empty((1, 1, 2, 2, 2), bk.f32)
of = {"batch": 1, "channels": 1, "d_in": 2, "h_in": 2, "w_in": 2}
of |= {"window_d": 2, "window_h": 2, "window_w": 2, "stride_d": 2, "stride_h": 2, "stride_w": 2}
descriptor = bk.MaxPool3dBackwardDescriptor(bk.PoolMode.MAX, **of, element=bk.f32)
plan = bk.MaxPool3dBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.MaxPool3dBackwardArgs(y=y, dy=dy, x=x, dx=dx))
print(bk.download(dx).ravel())
