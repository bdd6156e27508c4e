# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
y, indices = bk.adaptive_max_pool_indices(images, (1, 2))
print(y, indices)
print(bk.adaptive_max_pool(images, 1))

# %% Under PyTorch's name
print(bk.adaptive_max_pool2d(images, (None, 3)))

# %% Gradients
dy = np.ones_like(y)
print(bk.adaptive_max_pool_backward(dy, images, y, (1, 2)))
print(bk.adaptive_max_pool_indices_backward(dy, indices, images, (1, 2)))

# %% Plans
of = {"input_shape": (1, 1, 2, 4), "output_size": (1, 2)}
x, dx = bk.upload(images), bk.empty((1, 1, 2, 4), bk.f32)
out, at = bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 1, 2), bk.i64)
plan = bk.AdaptiveMaxPoolNdPlan.select(None, bk.AdaptiveMaxPoolNdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.AdaptiveMaxPoolNdArgs(x=x, y=out, indices=at))
print(bk.download(out), bk.download(at))
plan = bk.AdaptiveMaxPoolNdBackwardPlan.select(None, bk.AdaptiveMaxPoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.AdaptiveMaxPoolNdBackwardArgs(dy=bk.upload(dy), x=x, y=out, dx=dx))
print(bk.download(dx))
descriptor = bk.AdaptiveMaxPoolNdIndicesBackwardDescriptor(**of, element=bk.f32)
plan = bk.AdaptiveMaxPoolNdIndicesBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.AdaptiveMaxPoolNdIndicesBackwardArgs(dy=bk.upload(dy), indices=at, dx=dx))
print(bk.download(dx))
