# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32)
values, indices = bk.topk(x, 2)
print(values, indices)
print(bk.topk_backward(values, indices, 5))

# %% Plan
x = bk.upload(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32))
values, indices = bk.empty((2, 2), bk.f32), bk.empty((2, 2), bk.i32)
plan = bk.TopkPlan.select(None, bk.TopkDescriptor(2, 5, 2, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.TopkArgs(input=x, values=values, indices=indices))
print(bk.download(values), bk.download(indices))

# %% Plan of the gradient
dx = bk.empty((2, 5), bk.f32)
back = bk.TopkBackwardPlan.select(None, bk.TopkBackwardDescriptor(2, 5, 2, element=bk.f32))
back.run(None, bk.workspace(back), bk.TopkBackwardArgs(dy=values, indices=indices, dx=dx))
print(bk.download(dx))
