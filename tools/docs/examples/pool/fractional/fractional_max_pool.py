# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
samples = np.array([[[0.25, 0.75]]], np.float32)
y, indices = bk.fractional_max_pool(images, samples, 2, (1, 2))
print(y, indices)

# %% Under PyTorch's name
print(bk.fractional_max_pool2d(images, 2, (1, 2), random_samples=samples))

# %% Gradient
dy = np.ones_like(y)
print(bk.fractional_max_pool_backward(dy, indices, images, (1, 2)))

# %% Plans
of = {"input_shape": (1, 1, 2, 4), "output_size": (1, 2)}
x, dx = bk.upload(images), bk.empty((1, 1, 2, 4), bk.f32)
out, at = bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 1, 2), bk.i64)
descriptor = bk.FractionalMaxPoolNdDescriptor(**of, kernel_size=(2, 2), element=bk.f32)
plan = bk.FractionalMaxPoolNdPlan.select(None, descriptor)
plan.run(None, None, bk.FractionalMaxPoolNdArgs(x=x, samples=bk.upload(samples.reshape(1, 2)), y=out, indices=at))
print(bk.download(out), bk.download(at))
plan = bk.FractionalMaxPoolNdBackwardPlan.select(None, bk.FractionalMaxPoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.FractionalMaxPoolNdBackwardArgs(dy=bk.upload(dy), indices=at, dx=dx))
print(bk.download(dx))
