# %% Plan
import numpy as np

import baracuda as bk

dest, source = bk.zeros((4, 3), bk.f32), bk.upload(np.arange(1, 4).astype(np.float32).reshape(1, 3))
start = bk.upload(np.array([2]))  # read when the work is done
of = bk.WriteSliceFromDescriptor((4, 3), (1, 3), ranges=((0, 1), (0, 3)), dyn_axis=0, element=bk.f32)
plan = bk.WriteSliceFromPlan.select(None, of)
plan.run(None, None, bk.WriteSliceFromArgs(dest=dest, source=source, start=start))
print(bk.download(dest))
