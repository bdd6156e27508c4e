# %% Function
import numpy as np

import baracuda as bk

x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
print(bk.triu(x))

# %% Plan
x, y = bk.upload(x), bk.empty((3, 3), bk.f32)
plan = bk.TriuPlan.select(None, bk.TriuDescriptor((3, 3), diagonal=1, element=bk.f32))
plan.run(None, None, bk.TriuArgs(input=x, output=y))
print(bk.download(y))

# %% Plan of the gradient
dy = bk.upload(np.ones((3, 3), dtype=np.float32))
back = bk.TriuBackwardPlan.select(None, bk.TriuBackwardDescriptor((3, 3), diagonal=1, element=bk.f32))
back.run(None, None, bk.TriuBackwardArgs(grad_output=dy, grad_input=dy))  # in place
print(bk.download(dy))
