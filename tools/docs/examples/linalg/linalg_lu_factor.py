# %% Function
import numpy as np

import baracuda as bk

a = np.array([[1.0, 2.0], [4.0, 4.0]])
lu, pivots, info = bk.linalg_lu_factor(a)
print(lu, pivots, info)

# %% Plan
plan = bk.LuPlan.select(None, bk.LuDescriptor(2, 2, batch=1, element=bk.f64))
a, pivots = bk.upload(np.array([[[1.0, 2.0], [4.0, 4.0]]])), bk.empty((1, 2), bk.i32)
args = bk.LuArgs(a=a, lu=a, pivots=pivots, info=bk.empty((1,), bk.i32))  # in place
plan.run(None, bk.workspace(plan), args)
print(bk.download(a), bk.download(pivots))
