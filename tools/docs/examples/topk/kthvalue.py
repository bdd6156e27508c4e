# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32)
print(bk.kthvalue(x, 1))  # the second smallest

# %% Plan
x = bk.upload(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32))
values, indices = bk.empty((2,), bk.f32), bk.empty((2,), bk.i32)
plan = bk.KthvaluePlan.select(None, bk.KthvalueDescriptor(2, 5, 1, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.KthvalueArgs(input=x, values=values, indices=indices))
print(bk.download(values), bk.download(indices))

# %% Plan of the gradient
dx = bk.empty((2, 5), bk.f32)
back = bk.KthvalueBackwardPlan.select(None, bk.KthvalueBackwardDescriptor(2, 5, 1, element=bk.f32))
back.run(None, bk.workspace(back), bk.KthvalueBackwardArgs(dy=values, indices=indices, dx=dx))
print(bk.download(dx))
