# %% Plan
import numpy as np

import baracuda as bk

a = bk.upload(np.array([[[1.0, 9.0, 9.0], [2.0, 3.0, 9.0]]]))  # 3 x 2, column-major
plan = bk.BatchedQrMaterializeRPlan.select(None, bk.BatchedQrMaterializeRDescriptor(1, 3, 2, 2, element=bk.f64))
args = bk.BatchedQrMaterializeRArgs(a_packed=a, r=bk.empty((1, 2, 2), bk.f64))
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.r))
