# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
y, indices = bk.max_pool_indices(images, 2)
print(y, indices)
print(bk.max_pool(images, 3, stride=1, padding=1, ceil_mode=True))

# %% Under PyTorch's name
print(bk.max_pool2d(images, 2, return_indices=True))

# %% Gradients
dy = np.ones_like(y)
print(bk.max_pool_backward(dy, images, y, 2))
print(bk.max_pool_indices_backward(dy, indices, images, 2))

# %% Plans
of = {"input_shape": (1, 1, 2, 4), "kernel_size": (2, 2), "steps": (2, 2)}
of |= {"padding_low": (0, 0), "padding_high": (0, 0)}
of["dilation"] = (1, 1)
x, dx = bk.upload(images), bk.empty((1, 1, 2, 4), bk.f32)
out, at = bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 1, 2), bk.i64)
plan = bk.MaxPoolNdPlan.select(None, bk.MaxPoolNdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.MaxPoolNdArgs(x=x, y=out, indices=at))
print(bk.download(out), bk.download(at))
plan = bk.MaxPoolNdBackwardPlan.select(None, bk.MaxPoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.MaxPoolNdBackwardArgs(dy=bk.upload(dy), x=x, y=out, dx=dx))
print(bk.download(dx))
plan = bk.MaxPoolNdIndicesBackwardPlan.select(None, bk.MaxPoolNdIndicesBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.MaxPoolNdIndicesBackwardArgs(dy=bk.upload(dy), indices=at, dx=dx))
print(bk.download(dx))
