# %% Plan
import numpy as np

import baracuda as bk

dy, dx = bk.upload(np.ones((1, 1, 1, 2), np.float32)), bk.empty((1, 1, 2, 4), bk.f32)
descriptor = bk.AdaptiveAvgPoolBackwardDescriptor((1, 1, 2, 4), (1, 2), element=bk.f32)
plan = bk.AdaptiveAvgPoolBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.AdaptiveAvgPoolBackwardArgs(dy=dy, dx=dx))
print(bk.download(dx))
