# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
print(bk.take(x, np.array([11, 0, 5])))

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
index = bk.upload(np.array([11, 0, 5], dtype=np.int32))
out = bk.empty((3,), bk.f32)
plan = bk.TakePlan.select(None, bk.TakeDescriptor((3, 4), (3,), element=bk.f32))
plan.run(None, None, bk.TakeArgs(src=x, index=index, out=out))
print(bk.download(out))
