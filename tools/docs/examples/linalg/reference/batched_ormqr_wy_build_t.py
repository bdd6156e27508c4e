# %% Plan
import numpy as np

import baracuda as bk

a = bk.upload(np.array([[[5, 1, 1], [5, 5, 1]]], np.float64))  # two reflectors of three rows, column-major
descriptor = bk.BatchedOrmqrWyBuildTDescriptor(1, 3, 2, 2, 1, element=bk.f64)
plan = bk.BatchedOrmqrWyBuildTPlan.select(None, descriptor)
args = bk.BatchedOrmqrWyBuildTArgs(
    a_packed=a, tau=bk.upload(np.array([[1, 2]], np.float64)), t_out=bk.empty((1, 1, 2, 2), bk.f64)
)
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.t_out))
