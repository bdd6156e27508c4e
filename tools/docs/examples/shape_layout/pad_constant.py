# %% Function
import numpy as np

import baracuda as bk

x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
print(bk.pad_constant(x, (0, 2), (1, 1)))

# %% Plan
x, y = bk.upload(x), bk.empty((3, 6), bk.f32)
of = {"mode": bk.PadMode.CONSTANT, "input_shape": (2, 3), "pad_low": (0, 2), "pad_high": (1, 1)}
plan = bk.PadPlan.select(None, bk.PadDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.PadArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient: pad_constant_backward_f32
dx = bk.empty((2, 3), bk.f32)
back = bk.PadBackwardPlan.select(None, bk.PadBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.PadBackwardArgs(dy=y, dx=dx))
print(bk.download(dx))
