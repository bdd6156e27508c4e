# %% Function
import numpy as np

import baracuda as bk

sequence = np.array([1, 3, 3, 7], np.float32)
print(bk.searchsorted(sequence, np.array([3, 8], np.float32), right=True))

# %% Plan
sequence, values = bk.upload(np.array([1, 3, 3, 7], np.float32)), bk.upload(np.array([3, 8], np.float32))
positions = bk.empty((2,), bk.i32)
plan = bk.SearchsortedPlan.select(None, bk.SearchsortedDescriptor(2, 4, right=True, element=bk.f32))
plan.run(None, None, bk.SearchsortedArgs(sorted_seq=sequence, values=values, output=positions))
print(bk.download(positions))
