# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2))
y = bk.empty((1, 1, 1, 1, 1), bk.f32)
of = {"batch": 1, "channels": 1, "d_in": 2, "h_in": 2, "w_in": 2}
of |= {"window_d": 2, "window_h": 2, "window_w": 2, "stride_d": 2, "stride_h": 2, "stride_w": 2}
plan = bk.MaxPool3dPlan.select(None, bk.MaxPool3dDescriptor(bk.PoolMode.MAX, **of, element=bk.f32))
plan.run(None, None, bk.MaxPool3dArgs(x=x, y=y))
print(bk.download(y).ravel())

# %% Function
print(bk.max_pool3d(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2), 2).ravel())
