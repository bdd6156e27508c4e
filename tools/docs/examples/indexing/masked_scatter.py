# %% Function
import numpy as np

import baracuda as bk

mask = np.arange(12).reshape(3, 4) % 3 == 0
print(bk.masked_scatter(mask, np.array([7, 8, 9], dtype=np.float32)))

# %% Plan
source = bk.upload(np.array([7, 8, 9], dtype=np.float32))
mask = bk.upload(np.arange(12).reshape(3, 4) % 3 == 0)
out = bk.zeros((3, 4), bk.f32)
plan = bk.MaskedScatterPlan.select(None, bk.MaskedScatterDescriptor((3, 4), 3, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.MaskedScatterArgs(source=source, mask=mask, out=out))
print(bk.download(out))
