# %% Function
import numpy as np

import baracuda as bk

print(bk.fill(np.zeros((2, 3), dtype=np.float32), 1.5))

# %% Plan
y = bk.empty((2, 3), bk.f32)
plan = bk.FillPlan.select(None, bk.FillDescriptor(shape=y.shape, value=1.5, element=bk.f32))
plan.run(None, None, bk.FillArgs(output=y))
print(bk.download(y))
