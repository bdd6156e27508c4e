# %% Function
import numpy as np

import baracuda as bk

x = np.arange(6, dtype=np.float32).reshape(3, 2)
order, position, *_ = bk.moe_sort(np.array([[1, 0], [2, 1], [1, 0]], dtype=np.int32), 3)
y = bk.moe_permute(x, order, position)
print(y)

# %% Gradient
print(bk.moe_permute_backward(np.ones_like(y), order, position))

# %% Plan
plan = bk.MoePermutePlan.select(None, bk.MoePermuteDescriptor(3, 6, 2, 2, element=bk.f32))
rows = bk.empty((6, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.MoePermuteArgs(x=bk.upload(x), order=bk.upload(order), y=rows))
print(bk.download(rows))

# %% Plan of the gradient
plan = bk.MoePermuteBackwardPlan.select(None, bk.MoePermuteBackwardDescriptor(3, 2, 6, 2, element=bk.f32))
dx = bk.empty((3, 2), bk.f32)
args = bk.MoePermuteBackwardArgs(dy=bk.upload(np.ones_like(y)), position=bk.upload(position), dx=dx)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dx))
