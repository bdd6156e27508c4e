# %% Function
import numpy as np

import baracuda as bk

print(*bk.unique_consecutive(np.array([2, 2, 1, 2], np.float32), return_counts=True))

# %% Plan
x, values = bk.upload(np.array([[2, 2, 1, 2]], np.float32)), bk.zeros((1, 4), bk.f32)
counts, counter = bk.empty((1, 4), bk.i32), bk.empty((1,), bk.i32)
plan = bk.UniqueConsecutivePlan.select(None, bk.UniqueConsecutiveDescriptor(1, 4, 4, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.UniqueConsecutiveArgs(input=x, values=values, counts=counts, counter=counter))
print(bk.download(values), bk.download(counts), bk.download(counter))
