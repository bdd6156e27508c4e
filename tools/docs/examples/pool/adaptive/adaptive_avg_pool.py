# %% Function
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
y = bk.adaptive_avg_pool(images, (1, 2))
print(y)

# %% Under PyTorch's name
print(bk.adaptive_avg_pool2d(images, 1))

# %% Gradient
dy = np.ones_like(y)
print(bk.adaptive_avg_pool_backward(dy, images, (1, 2)))

# %% Plans
of = {"input_shape": (1, 1, 2, 4), "output_size": (1, 2)}
x, out, dx = bk.upload(images), bk.empty((1, 1, 1, 2), bk.f32), bk.empty((1, 1, 2, 4), bk.f32)
plan = bk.AdaptiveAvgPoolNdPlan.select(None, bk.AdaptiveAvgPoolNdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.AdaptiveAvgPoolNdArgs(x=x, y=out))
print(bk.download(out))
plan = bk.AdaptiveAvgPoolNdBackwardPlan.select(None, bk.AdaptiveAvgPoolNdBackwardDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.AdaptiveAvgPoolNdBackwardArgs(dy=bk.upload(dy), dx=dx))
print(bk.download(dx))
