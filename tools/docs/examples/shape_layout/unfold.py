# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], np.float32)
print(bk.unfold(x, axis=1, size=3, step=2))

# %% Plan
x, y = bk.upload(x), bk.empty((2, 2, 3), bk.f32)
of = {"input_shape": (2, 5), "unfold_dim": 1, "window_size": 3, "window_step": 2}
plan = bk.UnfoldPlan.select(None, bk.UnfoldDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.UnfoldArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient: unfold_backward_f32
dx = bk.empty((2, 5), bk.f32)
back = bk.UnfoldBackwardPlan.select(None, bk.UnfoldBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.UnfoldBackwardArgs(dy=y, dx=dx))
print(bk.download(dx))
