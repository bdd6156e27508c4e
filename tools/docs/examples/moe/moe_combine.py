# %% Function
import numpy as np

import baracuda as bk

y = np.arange(12, dtype=np.float32).reshape(6, 2)
weights = np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]], dtype=np.float32)
order, position, *_ = bk.moe_sort(np.array([[1, 0], [2, 1], [1, 0]], dtype=np.int32), 3)
out = bk.moe_combine(y, order, position, weights)
print(out)

# %% Gradient
dy, dweights = bk.moe_combine_backward(np.ones_like(out), y, order, position, weights)
print(dy, dweights)

# %% Plan
plan = bk.MoeCombinePlan.select(None, bk.MoeCombineDescriptor(3, 2, 6, 2, element=bk.f32))
sums = bk.empty((3, 2), bk.f32)
args = bk.MoeCombineArgs(y=bk.upload(y), position=bk.upload(position), weights=bk.upload(weights), out=sums)
plan.run(None, bk.workspace(plan), args)
print(bk.download(sums))

# %% Plan of the gradient
plan = bk.MoeCombineBackwardPlan.select(None, bk.MoeCombineBackwardDescriptor(3, 2, 6, 2, element=bk.f32))
dy, dweights = bk.empty((6, 2), bk.f32), bk.empty((3, 2), bk.f32)
given = {"dout": np.ones_like(out), "y": y, "order": order, "position": position, "weights": weights}
args = bk.MoeCombineBackwardArgs(**{name: bk.upload(array) for name, array in given.items()}, dy=dy, dweights=dweights)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dy), bk.download(dweights))
