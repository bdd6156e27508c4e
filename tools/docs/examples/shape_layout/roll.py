# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
print(bk.roll(x, 1, axis=1))

# %% Plan
x, y = bk.upload(x), bk.empty((2, 3), bk.f32)
plan = bk.RollPlan.select(None, bk.RollDescriptor((2, 3), shifts=(1, -1), element=bk.f32))
plan.run(None, None, bk.RollArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient
dx = bk.empty((2, 3), bk.f32)
back = bk.RollBackwardPlan.select(None, bk.RollBackwardDescriptor((2, 3), shifts=(1, -1), element=bk.f32))
back.run(None, None, bk.RollBackwardArgs(dy=y, dx=dx))
print(bk.download(dx))
