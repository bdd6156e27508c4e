# %% Function
import numpy as np

import baracuda as bk

print(bk.put(np.array([4, 0, 4]), np.array([1, 2, 3], dtype=np.float32), 6))

# %% Plan
updates = bk.upload(np.array([1, 2, 3], dtype=np.float32))
index = bk.upload(np.array([4, 0, 4], dtype=np.int32))
out = bk.zeros((6,), bk.f32)
descriptor = bk.PutDescriptor((3,), (6,), element=bk.f32)
plan = bk.PutPlan.select(None, descriptor, bk.PlanPreference(deterministic=True))
plan.run(None, bk.workspace(plan), bk.PutArgs(updates=updates, index=index, out=out))
print(bk.download(out))
