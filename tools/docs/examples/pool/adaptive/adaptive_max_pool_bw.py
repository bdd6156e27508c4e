# %% Plan
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
dy, dx = bk.upload(np.ones((1, 1, 1, 2), np.float32)), bk.empty((1, 1, 2, 4), bk.f32)
descriptor = bk.AdaptiveMaxPoolBackwardDescriptor((1, 1, 2, 4), (1, 2), element=bk.f32)
plan = bk.AdaptiveMaxPoolBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.AdaptiveMaxPoolBackwardArgs(x=bk.upload(images), dy=dy, dx=dx))
print(bk.download(dx))
