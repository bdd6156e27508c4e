# %% Function
import numpy as np

import baracuda as bk

x = np.array([1, 0, 1, 5, -2], np.int32)
print(bk.bincount(x), bk.bin_counts(x, num_bins=3))

# %% Plan
x, counts = bk.upload(np.array([1, 0, 1, 5, -2], np.int32)), bk.empty((3,), bk.i64)
plan = bk.BincountPlan.select(None, bk.BincountDescriptor(5, 3, element=bk.i32))
plan.run(None, None, bk.BincountArgs(input=x, output=counts))
print(bk.download(counts))
