# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4))
y = bk.empty((1, 1, 1, 2), bk.f32)
of = {"batch": 1, "channels": 1, "h_in": 2, "w_in": 4}
of |= {"window_h": 2, "window_w": 2, "stride_h": 2, "stride_w": 2}
plan = bk.MaxPool2dPlan.select(None, bk.MaxPool2dDescriptor(bk.PoolMode.MAX, **of, element=bk.f32))
plan.run(None, None, bk.MaxPool2dArgs(x=x, y=y))
print(bk.download(y).ravel())

# %% Function
print(bk.max_pool2d(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4), 2).ravel())
