# %% Function
import numpy as np

import baracuda as bk

print(*bk.unique_padded(np.array([2, 2, 1, 2], np.float32), max_unique=3))

# %% Plan
x, values = bk.upload(np.array([2, 2, 1, 2], np.float32)), bk.zeros((3,), bk.f32)
first, inverse, counts, counter = (bk.zeros((count,), bk.i64) for count in (3, 4, 3, 1))
plan = bk.UniqueElementsPlan.select(None, bk.UniqueElementsDescriptor(4, 3, equal_nan=True, element=bk.f32))
args = bk.UniqueElementsArgs(x=x, values=values, first=first, inverse=inverse, counts=counts, counter=counter)
plan.run(None, bk.workspace(plan), args)
print(bk.download(values), bk.download(inverse), bk.download(counter))
