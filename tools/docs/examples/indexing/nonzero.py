# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
coordinates, count = bk.nonzero(x - 5)
print(coordinates[:3], count)

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
table, counter = bk.zeros((4, 2), bk.i32), bk.empty((1,), bk.i32)
plan = bk.NonzeroPlan.select(None, bk.NonzeroDescriptor((3, 4), max_nz=4, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.NonzeroArgs(x=x, out_coords=table, counter=counter))
print(bk.download(table), bk.download(counter))
