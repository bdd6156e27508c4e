# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2], [3, 4]], np.float32)
print(bk.repeat_interleave(x, 2, axis=1))

# %% Plan
x, y = bk.upload(x), bk.empty((2, 4), bk.f32)
of = {"input_shape": (2, 2), "repeat_dim": 1, "repeats": 2}
plan = bk.RepeatInterleavePlan.select(None, bk.RepeatInterleaveDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.RepeatInterleaveArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient: repeat_interleave_backward_f32
dx = bk.empty((2, 2), bk.f32)
back = bk.RepeatInterleaveBackwardPlan.select(None, bk.RepeatInterleaveBackwardDescriptor(**of, element=bk.f32))
back.run(None, bk.workspace(back), bk.RepeatInterleaveBackwardArgs(dy=y, dx=dx))
print(bk.download(dx))
