# %% Plan
import numpy as np

import baracuda as bk

images = np.array([[[[1, 5, 2, 0], [3, 4, -6, 1]]]], np.float32)
x, y = bk.upload(images), bk.empty((1, 1, 1, 2), bk.f32)
descriptor = bk.AdaptiveMaxPoolDescriptor((1, 1, 2, 4), (1, 2), element=bk.f32)
plan = bk.AdaptiveMaxPoolPlan.select(None, descriptor)
plan.run(None, None, bk.AdaptiveMaxPoolArgs(x=x, y=y))
print(bk.download(y))
