# %% Function
import numpy as np

import baracuda as bk

x = np.array([[-1, 2, -3], [4, -5, 6]], dtype=np.float32)
print(bk.prelu(x, np.array([0.5, 0.25, 0.1], dtype=np.float32)))  # a weight for each column

# %% Plan
x = bk.upload(np.array([[-1, 2, -3], [4, -5, 6]], dtype=np.float32))
weight = bk.upload(np.array([0.5, 0.25, 0.1], dtype=np.float32))  # one for each column
y = bk.empty(x.shape, bk.f32)
plan = bk.PReluPlan.select(None, bk.PReluDescriptor(shape=x.shape, channel_axis=1, element=bk.f32))
plan.run(None, None, bk.PReluArgs(x=x, weight=weight, y=y))
print(bk.download(y))

# %% Plan of the gradient: prelu_backward_f32
dy = bk.upload(np.ones(x.shape, dtype=np.float32))
dx, dweight = bk.empty(x.shape, bk.f32), bk.empty(weight.shape, bk.f32)
back = bk.PReluBackwardPlan.select(None, bk.PReluBackwardDescriptor(shape=x.shape, channel_axis=1, element=bk.f32))
args = bk.PReluBackwardArgs(dy=dy, x=x, weight=weight, dx=dx, dweight=dweight)
back.run(None, bk.workspace(back, args), args)
print(bk.download(dx), bk.download(dweight))
