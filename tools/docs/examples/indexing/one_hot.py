# %% Function
import numpy as np

import baracuda as bk

print(bk.one_hot(np.array([2, 0, 5]), 3))

# %% Plan
src = bk.upload(np.array([2, 0, 5], dtype=np.int32))
out = bk.empty((3, 3), bk.f32)
plan = bk.OneHotPlan.select(None, bk.OneHotDescriptor((3, 3), 3, element=bk.f32))
plan.run(None, None, bk.OneHotArgs(src=src, out=out))
print(bk.download(out))
