# %% Function
import numpy as np

import baracuda as bk

a = np.array([[3.0, 1.0], [4.0, 2.0]])
packed, tau = bk.linalg_qr_factor(a)
print(np.round(packed, 12), np.round(tau, 12))

# %% Plan
plan = bk.BatchedQrPlan.select(None, bk.BatchedQrDescriptor(2, 2, batch=1, element=bk.f64))
a, tau = bk.upload(np.array([[[3.0, 1.0], [4.0, 2.0]]])), bk.empty((1, 2), bk.f64)
plan.run(None, bk.workspace(plan), bk.BatchedQrArgs(a=a, packed=a, tau=tau))  # in place
print(np.round(bk.download(a), 12), np.round(bk.download(tau), 12))
