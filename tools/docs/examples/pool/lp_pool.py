# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
y = bk.lp_pool(images, 2.0, 2)
print(y)
print(bk.lp_pool(images, float("inf"), 2))

# %% Under PyTorch's name
print(bk.lp_pool2d(images, 1.0, 2))

# %% Gradient
dy = np.ones_like(y)
print(bk.lp_pool_backward(dy, images, y, 2.0, 2))

# %% Plans
of = {"input_shape": (1, 1, 2, 4), "kernel_size": (2, 2), "steps": (2, 2)}
of |= {"padding_low": (0, 0), "padding_high": (0, 0)}
of |= {"dilation": (1, 1), "norm_p": 2.0}
x, out, dx = bk.upload(images), bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 2, 4), bk.f32)
plan = bk.LpPoolNdPlan.select(None, bk.LpPoolNdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.LpPoolNdArgs(x=x, y=out))
print(bk.download(out))
plan = bk.LpPoolNdBackwardPlan.select(None, bk.LpPoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.LpPoolNdBackwardArgs(dy=bk.upload(dy), x=x, y=out, dx=dx))
print(bk.download(dx))
