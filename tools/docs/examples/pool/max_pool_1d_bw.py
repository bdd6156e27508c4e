# %% Plan
import numpy as np

import baracuda as bk

images = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
x, y = bk.upload(images), bk.upload(bk.max_pool1d(images, 2))
dy, dx = bk.upload(np.ones((1, 1, 4), np.float32)), bk.empty((1, 1, 8), bk.f32)
of = {"batch": 1, "channels": 1, "l_in": 8}
of |= {"window_l": 2, "stride_l": 2}
descriptor = bk.MaxPool1dBackwardDescriptor(bk.PoolMode.MAX, **of, element=bk.f32)
plan = bk.MaxPool1dBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.MaxPool1dBackwardArgs(y=y, dy=dy, x=x, dx=dx))
print(bk.download(dx).ravel())
