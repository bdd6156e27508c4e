# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2))
y, indices = bk.empty((1, 1, 1, 1, 1), bk.f32), bk.empty((1, 1, 1, 1, 1), bk.i64)
samples = bk.upload(np.full(3, 0.5, np.float32))
descriptor = bk.FractionalMaxPool3dDescriptor(1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, element=bk.f32)
plan = bk.FractionalMaxPool3dPlan.select(None, descriptor)
plan.run(None, None, bk.FractionalMaxPool3dArgs(x=x, y=y, indices=indices, random_samples=samples))
print(bk.download(y), bk.download(indices))
