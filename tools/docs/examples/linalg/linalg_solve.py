# %% Function
import numpy as np

import baracuda as bk

a = np.array([[[1.0, 2.0], [4.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]]])
x, info = bk.linalg_solve(a, np.array([[3.0], [8.0]]))  # b broadcasts
print(x, info)
print(bk.linalg.solve(a[0], np.array([3.0, 8.0])))

# %% Plan
plan = bk.SolvePlan.select(None, bk.SolveDescriptor(2, 1, batch=1, element=bk.f64))
a, b = bk.upload(np.array([[[1.0, 2.0], [4.0, 4.0]]])), bk.upload(np.array([[[3.0], [8.0]]]))
args = bk.SolveArgs(a=a, b=b, x=b, info=bk.empty((1,), bk.i32))  # in place of b
plan.run(None, bk.workspace(plan), args)
print(bk.download(b))
