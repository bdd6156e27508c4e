# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4))
y, indices = bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 1, 2), bk.i64)
samples = bk.upload(np.full(2, 0.5, np.float32))
descriptor = bk.FractionalMaxPool2dDescriptor(1, 1, 2, 4, 1, 2, 2, 2, element=bk.f32)
plan = bk.FractionalMaxPool2dPlan.select(None, descriptor)
plan.run(None, None, bk.FractionalMaxPool2dArgs(x=x, y=y, indices=indices, random_samples=samples))
print(bk.download(y), bk.download(indices))
