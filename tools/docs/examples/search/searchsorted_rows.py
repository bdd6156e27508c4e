# %% Function
import numpy as np

import baracuda as bk

rows = np.array([[1, 3], [5, 9]], np.float32)
print(bk.searchsorted(rows, np.array([[2, 4], [2, 7]], np.float32)))

# %% Plan
rows, values = bk.upload(np.array([[1, 3], [5, 9]], np.float32)), bk.upload(np.array([[2, 4], [2, 7]], np.float32))
positions = bk.empty((2, 2), bk.i64)
plan = bk.SearchsortedRowsPlan.select(None, bk.SearchsortedRowsDescriptor(2, 2, 2, 2, element=bk.f32))
plan.run(None, None, bk.SearchsortedRowsArgs(sorted_seq=rows, sorter=None, values=values, output=positions))
print(bk.download(positions))
