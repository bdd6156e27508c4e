# %% Function
import numpy as np

import baracuda as bk

a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])  # a line through three points
x, residuals, rank = bk.linalg_lstsq(a, np.array([[1.0], [3.0], [5.0]]))
print(np.round(x, 12), rank)

# %% Plan
plan = bk.LstSqPlan.select(None, bk.LstSqDescriptor(3, 2, 1, batch=1, element=bk.f64))
a = bk.upload(np.array([[[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]]))
args = bk.LstSqArgs(
    a=a, b=bk.upload(np.array([[[1.0], [3.0], [5.0]]])), x=bk.empty((1, 2, 1), bk.f64),
    residuals=bk.empty((1, 1), bk.f64), rank=bk.empty((1,), bk.i32),
)  # fmt: skip
plan.run(None, bk.workspace(plan), args)
print(np.round(bk.download(args.x), 12), bk.download(args.rank))
