# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(8, dtype=np.float32).reshape(1, 1, 8))
y = bk.empty((1, 1, 4), bk.f32)
of = {"batch": 1, "channels": 1, "l_in": 8}
of |= {"window_l": 2, "stride_l": 2}
plan = bk.MaxPool1dPlan.select(None, bk.MaxPool1dDescriptor(bk.PoolMode.MAX, **of, element=bk.f32))
plan.run(None, None, bk.MaxPool1dArgs(x=x, y=y))
print(bk.download(y).ravel())

# %% Function
print(bk.max_pool1d(np.arange(8, dtype=np.float32).reshape(1, 1, 8), 2).ravel())
