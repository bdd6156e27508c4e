# %% Function
import numpy as np

import baracuda as bk

print(bk.tile(np.array([[1, 2]], dtype=np.float32), (2, 2)))

# %% Plan
x = bk.upload(np.array([[1, 2]], dtype=np.float32))
y = bk.empty((2, 4), bk.f32)
plan = bk.RepeatPlan.select(None, bk.RepeatDescriptor(input_shape=x.shape, repeats=(2, 2), element=bk.f32))
plan.run(None, None, bk.RepeatArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient: repeat_backward_f32
dy = bk.upload(np.ones(y.shape, dtype=np.float32))
dx = bk.empty(x.shape, bk.f32)
of = bk.RepeatBackwardDescriptor(input_shape=x.shape, repeats=(2, 2), element=bk.f32)
back = bk.RepeatBackwardPlan.select(None, of)
back.run(None, bk.workspace(back), bk.RepeatBackwardArgs(dy=dy, dx=dx))
print(bk.download(dx))
