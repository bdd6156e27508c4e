# %% Function
import numpy as np

import baracuda as bk

a = np.array([[1.0, 2.0], [4.0, 4.0]])
x, info = bk.linalg_inv(a)
print(x, info)

# %% Plan
plan = bk.InversePlan.select(None, bk.InverseDescriptor(2, batch=1, element=bk.f64))
a = bk.upload(np.array([[[1.0, 2.0], [4.0, 4.0]]]))
args = bk.InverseArgs(a=a, x=bk.empty((1, 2, 2), bk.f64), info=bk.empty((1,), bk.i32))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.x))
