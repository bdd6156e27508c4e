# %% Plan
import numpy as np

import baracuda as bk

a = bk.upload(np.array([1, 2, 3, np.nan], dtype=np.float32))
b = bk.upload(np.array([2, 2, 2, 2], dtype=np.float32))
y = bk.empty(a.shape, bk.bool_)
plan = bk.BinaryCmpPlan.select(None, bk.BinaryCmpDescriptor(kind=bk.BinaryCmpKind.EQ, shape=a.shape, element=bk.f32))
plan.run(None, None, bk.BinaryCmpArgs(a=a, b=b, y=y))
print(bk.download(y))
