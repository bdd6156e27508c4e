# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
y, indices = bk.max_pool_indices(images, 2)
print(bk.max_unpool(y, indices, (2, 4)))

# %% Under PyTorch's name
print(bk.max_unpool2d(y, indices, 2))

# %% Gradient
dy = np.ones_like(images)
print(bk.max_unpool_backward(dy, indices, (2, 4)))

# %% Plans
of = {"input_shape": (1, 1, 1, 2), "output_size": (2, 4)}
x, at, out, dx = bk.upload(y), bk.upload(indices), bk.empty((1, 1, 2, 4), bk.f32), bk.empty((1, 1, 1, 2), bk.f32)
plan = bk.MaxUnpoolNdPlan.select(None, bk.MaxUnpoolNdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.MaxUnpoolNdArgs(x=x, indices=at, y=out))
print(bk.download(out))
plan = bk.MaxUnpoolNdBackwardPlan.select(None, bk.MaxUnpoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.MaxUnpoolNdBackwardArgs(dy=bk.upload(dy), indices=at, dx=dx))
print(bk.download(dx))
