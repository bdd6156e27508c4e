# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.array([[3, 1, 2, 1], [5, 8, 5, 0]], dtype=np.float32))
indices = bk.empty((2, 4), bk.i32)
plan = bk.ArgsortPlan.select(None, bk.ArgsortDescriptor(2, 4, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.ArgsortArgs(input=x, indices=indices))
print(bk.download(indices))
