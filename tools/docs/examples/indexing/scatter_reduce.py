# %% Function
import numpy as np

import baracuda as bk

updates = np.array([[0.5, 2, 3], [1, 0.25, 4]], np.float32)
index = np.array([[2, 0, 0], [1, 1, 3]])
print(bk.scatter_reduce(index, updates, 4, reduce="mean"))
out = np.full((2, 4), 1.5, np.float32)
print(bk.scatter_reduce(index, updates, 4, reduce="amax", include_self=True, out=out))

# %% Gradient: scatter_reduce_backward_f32
x = np.full((2, 4), 1.5, np.float32)
y = bk.scatter_reduce(index, updates, 4, reduce="prod", include_self=True, out=x.copy())
dx, dupdates = bk.scatter_reduce_backward(np.ones_like(y), x, updates, index, y, reduce="prod", include_self=True)
print(dx, dupdates)

# %% Plan
updates, index = bk.upload(updates), bk.upload(index)
out = bk.upload(np.full((2, 4), 10, np.float32))
of = bk.ScatterReduceDescriptor((2, 3), 1, 4, bk.ScatterReduction.PROD, include_self=True, element=bk.f32)
plan = bk.ScatterReducePlan.select(None, of)
plan.run(None, bk.workspace(plan), bk.ScatterReduceArgs(updates=updates, index=index, out=out))
print(bk.download(out))

# %% Plan of the gradient: scatter_reduce_backward_f32
dy, x, dx, dupdates = (bk.upload(np.full(s, 1, np.float32)) for s in ((2, 4), (2, 4), (2, 4), (2, 3)))
of = bk.ScatterReduceBackwardDescriptor((2, 3), 1, 4, bk.ScatterReduction.MEAN, include_self=True, element=bk.f32)
plan = bk.ScatterReduceBackwardPlan.select(None, of)
args = bk.ScatterReduceBackwardArgs(dout=dy, x=x, updates=updates, index=index, out=out, dx=dx, dupdates=dupdates)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dupdates))
