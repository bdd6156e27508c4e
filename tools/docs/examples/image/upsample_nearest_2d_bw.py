# %% Plan
import numpy as np

import baracuda as bk

dout = bk.upload(np.ones((1, 1, 3, 4), dtype=np.float32))
dinput = bk.zeros((1, 1, 2, 2), bk.f32)  # it is added to
descriptor = bk.UpsampleNearest2dBackwardDescriptor(1, 1, 2, 2, 3, 4, element=bk.f32)
plan = bk.UpsampleNearest2dBackwardPlan.select(None, descriptor)
plan.run(None, None, bk.UpsampleNearest2dBackwardArgs(dout=dout, dinput=dinput))
print(bk.download(dinput))
