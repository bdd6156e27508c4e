# %% Plan
import numpy as np

import baracuda as bk

images = bk.upload(np.array([[[[1, 2], [3, 4]]]], dtype=np.float32))
y = bk.empty((1, 1, 3, 4), bk.f32)
plan = bk.UpsampleNearest2dPlan.select(None, bk.UpsampleNearest2dDescriptor(1, 1, 2, 2, 3, 4, element=bk.f32))
plan.run(None, None, bk.UpsampleNearest2dArgs(input=images, output=y))
print(bk.download(y))
