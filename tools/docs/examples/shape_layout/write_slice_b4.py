# %% Plan
import numpy as np

import baracuda as bk

dest, source = bk.zeros((3, 4), bk.f32), bk.upload(np.arange(1, 5).astype(np.float32).reshape(2, 2))
of = bk.WriteSliceDescriptor((3, 4), (2, 2), ranges=((0, 2), (1, 3)), element=bk.f32)
plan = bk.WriteSlicePlan.select(None, of)
plan.run(None, None, bk.WriteSliceArgs(dest=dest, source=source))
print(bk.download(dest))
