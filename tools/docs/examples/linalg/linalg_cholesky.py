# %% Function
import numpy as np

import baracuda as bk

a = np.array([[[4.0, 2.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]]])  # the second is not positive definite
factor, info = bk.linalg_cholesky(a)
print(factor[0], info)
print(bk.linalg.cholesky(a[0], upper=True))

# %% Plan
plan = bk.CholeskyPlan.select(None, bk.CholeskyDescriptor(2, batch=1, element=bk.f64))
a = bk.upload(np.array([[[4.0, 2.0], [2.0, 5.0]]]))
args = bk.CholeskyArgs(a=a, l=bk.empty((1, 2, 2), bk.f64), info=bk.empty((1,), bk.i32))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.l), bk.download(args.info))
