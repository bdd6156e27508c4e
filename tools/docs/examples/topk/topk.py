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

# %% Plan along an axis: topk_axis_f32
rows = bk.empty((1, 5), bk.f32), bk.empty((1, 5), bk.i32)
along = bk.TopkAxisPlan.select(None, bk.TopkAxisDescriptor((2, 5), 0, 1, largest=False, element=bk.f32))
along.run(None, bk.workspace(along), bk.TopkAxisArgs(input=x, values=rows[0], indices=rows[1]))
print(bk.download(rows[0]))

# %% Plan of the gradient: topk_backward_f32
dx = bk.empty((2, 5), bk.f32)
back = bk.TopkBackwardPlan.select(None, bk.TopkBackwardDescriptor(2, 5, 2, element=bk.f32))
back.run(None, bk.workspace(back), bk.TopkBackwardArgs(dy=values, indices=indices, dx=dx))
print(bk.download(dx))
