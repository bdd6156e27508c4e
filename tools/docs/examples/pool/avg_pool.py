# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
y = bk.avg_pool(images, 2)
print(y)
print(bk.avg_pool(images, 3, stride=2, padding=1, count_include_pad=False))

# %% Under PyTorch's name
print(bk.avg_pool2d(images, 2, divisor_override=2))

# %% Gradient
dy = np.ones_like(y)
print(bk.avg_pool_backward(dy, images, 2))

# %% Plans
of = {"input_shape": (1, 1, 2, 4), "kernel_size": (2, 2), "steps": (2, 2)}
of |= {"padding_low": (0, 0), "padding_high": (0, 0)}
of["dilation"] = (1, 1)
x, out, dx = bk.upload(images), bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 2, 4), bk.f32)
plan = bk.AvgPoolNdPlan.select(None, bk.AvgPoolNdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.AvgPoolNdArgs(x=x, y=out))
print(bk.download(out))
plan = bk.AvgPoolNdBackwardPlan.select(None, bk.AvgPoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.AvgPoolNdBackwardArgs(dy=bk.upload(dy), dx=dx))
print(bk.download(dx))
