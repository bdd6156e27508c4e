# %% Plan
import numpy as np

import baracuda as bk

v = np.array([[[1, 1]]], np.float64)  # one reflector of two rows, column-major
c = bk.upload(np.array([[[3, 4], [0, 2]]], np.float64))
plan = bk.BatchedOrmqrPlan.select(None, bk.BatchedOrmqrDescriptor(1, 2, 2, 1, element=bk.f64))
args = bk.BatchedOrmqrArgs(a_packed=bk.upload(v), tau=bk.upload(np.array([[1]], np.float64)), c=c)
plan.run(None, bk.workspace(plan), args)
print(bk.download(c))
