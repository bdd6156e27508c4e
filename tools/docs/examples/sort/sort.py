# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32))
values, indices = bk.empty((2, 4), bk.f32), bk.empty((2, 4), bk.i32)
plan = bk.SortPlan.select(None, bk.SortDescriptor(2, 4, descending=True, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.SortArgs(input=x, values=values, indices=indices))
print(bk.download(values))
print(bk.download(indices))

# %% Plan of the gradient: sort_backward_f32
dy, dx = bk.upload(np.arange(8, dtype=np.float32).reshape(2, 4)), bk.empty((2, 4), bk.f32)
back = bk.SortBackwardPlan.select(None, bk.SortBackwardDescriptor(2, 4, element=bk.f32))
back.run(None, bk.workspace(back), bk.SortBackwardArgs(dy=dy, indices=indices, dx=dx))
print(bk.download(dx))
