# %% Function
import numpy as np

import baracuda as bk

print(bk.affine(np.array([1, 2, 3], dtype=np.float32), 2, offset=0.5))

# %% Plan
x = bk.upload(np.array([1, 2, 3], dtype=np.float32))
y = bk.empty(x.shape, bk.f32)
plan = bk.AffinePlan.select(None, bk.AffineDescriptor(shape=x.shape, scale=2.0, offset=0.5, element=bk.f32))
plan.run(None, None, bk.AffineArgs(x=x, y=y))
print(bk.download(y))

# %% Plan, in place
plan.run(None, None, bk.AffineArgs(x=None, y=y))
print(bk.download(y))
