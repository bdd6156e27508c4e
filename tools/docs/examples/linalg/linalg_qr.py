# %% Function
import numpy as np

import baracuda as bk

a = np.array([[3.0, 1.0], [4.0, 2.0]])
q, r = bk.linalg_qr(a)
print(np.round(q @ r, 12))
print(np.round(r, 12))

# %% Plan
plan = bk.QrPlan.select(None, bk.QrDescriptor(2, 2, batch=1, element=bk.f64))
a = bk.upload(np.array([[[3.0, 1.0], [4.0, 2.0]]]))
args = bk.QrArgs(a=a, q=bk.empty((1, 2, 2), bk.f64), r=bk.empty((1, 2, 2), bk.f64))
plan.run(None, bk.workspace(plan), args)
print(np.round(bk.download(args.r), 12))
