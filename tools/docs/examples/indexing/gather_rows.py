# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
print(bk.gather_rows(x, np.array([2, 9, 0], dtype=np.uint32)))  # there is no row 9

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
idx = bk.upload(np.array([2, 9, 0], dtype=np.uint32))
dest = bk.empty((3, 4), bk.f32)
plan = bk.GatherRowsPlan.select(None, bk.GatherRowsDescriptor(rows=3, columns=4, source_rows=3, element=bk.f32))
plan.run(None, None, bk.GatherRowsArgs(table=x, idx=idx, dest=dest))
print(bk.download(dest))
