# %% Plan
import numpy as np

import baracuda as bk

x = bk.tensor(np.arange(6).astype(np.float32).reshape(2, 3).T)  # columns are rows
dest = bk.empty((3, 2), bk.f32)
plan = bk.ContiguizePlan.select(None, bk.ContiguizeDescriptor((3, 2), element=bk.f32))
plan.run(None, None, bk.ContiguizeArgs(source=x, dest=dest))
print(bk.download(dest))
