# %% Functions
import numpy as np

import baracuda as bk

a = np.array([[2, 1], [0, 1], [1, 1]], np.float32)
u, p = bk.linalg.polar(a)
print(u @ p)
print(bk.linalg.orthogonalize(a))
print(bk.linalg.orthogonalize(a, method="newton_schulz", steps=8))

# %% Plan
plan = bk.PolarPlan.select(None, bk.PolarDescriptor(3, 2, element=bk.f32))
u, p = bk.empty((1, 3, 2), bk.f32), bk.empty((1, 2, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.PolarArgs(a=bk.upload(a[None]), u=u, p=p))
print(bk.download(p))
