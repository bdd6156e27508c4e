# %% Function
import numpy as np

import baracuda as bk

x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
offset = np.full((1, 8, 2, 2), 0.5, dtype=np.float32)  # half a cell down and right for each of 2 x 2 taps
columns = bk.deform_columns(x, offset, 2)
print(columns)

# %% Convolution
print(bk.deform_conv2d(x, offset, np.ones((1, 1, 2, 2), np.float32)))

# %% Gradients
dx, doffset, _ = bk.deform_columns_backward(np.ones_like(columns), x, offset, 2)
print(dx, doffset)

# %% Plan
plan = bk.DeformColumnsPlan.select(None, bk.DeformColumnsDescriptor(1, 1, 3, 3, 2, 2, 2, 2, element=bk.f32))
made = bk.empty((1, 4, 2, 2), bk.f32)
plan.run(None, None, bk.DeformColumnsArgs(input=bk.upload(x), offset=bk.upload(offset), columns=made))
print(bk.download(made))

# %% Plan of the gradients
descriptor = bk.DeformColumnsBackwardDescriptor(1, 1, 3, 3, 2, 2, 2, 2, element=bk.f32)
plan = bk.DeformColumnsBackwardPlan.select(None, descriptor)
given = {"dcolumns": np.ones_like(columns), "input": x, "offset": offset}
dx = bk.empty((1, 1, 3, 3), bk.f32)
args = bk.DeformColumnsBackwardArgs(**{name: bk.upload(array) for name, array in given.items()}, dinput=dx)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dx))
