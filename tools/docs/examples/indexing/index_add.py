# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
print(bk.index_add(np.array([1, 0, 1]), x, 2))

# %% Plan
src, idx = bk.upload(x), bk.upload(np.array([1, 0, 1], dtype=np.int32))
dst = bk.upload(np.full((2, 3), 100, np.float32))  # what is added to
plan = bk.IndexAddPlan.select(None, bk.IndexAddDescriptor((3, 3), add_dim=0, dst_dim_size=2, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.IndexAddArgs(src=src, idx=idx, dst=dst))
print(bk.download(dst))
