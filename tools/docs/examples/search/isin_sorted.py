# %% Function
import numpy as np

import baracuda as bk

x = np.array([3, 4, 7], np.float32)
print(bk.isin_sorted(x, np.array([1, 3, 7], np.float32)))

# %% Plan
x, sequence = bk.upload(np.array([3, 4, 7], np.float32)), bk.upload(np.array([1, 3, 7], np.float32))
found = bk.empty((3,), bk.bool_)
plan = bk.IsinSortedPlan.select(None, bk.IsinSortedDescriptor(3, 3, element=bk.f32))
plan.run(None, None, bk.IsinSortedArgs(values=x, sorted_seq=sequence, output=found))
print(bk.download(found))
