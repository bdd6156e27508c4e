# %% Plan
import numpy as np

import baracuda as bk

a = bk.upload(np.array([[[5, 2, 3], [5, 5, 4]]], np.complex128))  # two reflectors of three rows, column-major
descriptor = bk.BatchedOrmqrWyExtractVDescriptor(1, 3, 2, 2, 0, 2, element=bk.c64)
plan = bk.BatchedOrmqrWyExtractVPlan.select(None, descriptor)
args = bk.BatchedOrmqrWyExtractVArgs(a_packed=a, v_out=bk.empty((1, 2, 3), bk.c64))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.v_out))
