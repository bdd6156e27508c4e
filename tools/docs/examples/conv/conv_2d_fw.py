# %% Function
import numpy as np

import baracuda as bk

x = np.arange(32, dtype=np.float32).reshape((1, 2, 4, 4))
weight = np.ones((1, 2, 3, 3), dtype=np.float32)
print(bk.conv2d(x, weight, padding=1, activation="relu"))

# %% Gradients
dy = np.ones((1, 1, 4, 4), dtype=np.float32)
dx, dweight, dbias = bk.conv2d_backward(dy, x, weight, padding=1)
print(dx[0, 0], dweight[0, 0], dbias)

# %% Plan of three directions
descriptor = bk.Conv2dDescriptor(1, 2, 1, 4, 4, 3, 3, element=bk.f32).with_padding(1, 1)
plan = bk.Conv2dPlan.select(None, descriptor)
space = bk.workspace(plan)
x, weight, dy = bk.upload(x), bk.upload(weight), bk.upload(dy)
y, dx = bk.empty(descriptor.output_shape, bk.f32), bk.empty(descriptor.input_shape, bk.f32)
dweight = bk.empty(descriptor.filter_shape, bk.f32)
plan.run_fw(None, space, bk.Conv2dFwArgs(input=x, filter=weight, output=y))
plan.run_bw_data(None, space, bk.Conv2dBwDataArgs(filter=weight, grad_output=dy, grad_input=dx))
plan.run_dw(None, space, bk.Conv2dDwArgs(input=x, grad_output=dy, grad_filter=dweight))
print(bk.download(y)[0, 0], bk.download(dx)[0, 0], bk.download(dweight)[0, 0])
