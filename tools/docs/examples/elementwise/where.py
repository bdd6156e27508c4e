# %% Function
import numpy as np

import baracuda as bk

print(bk.where(np.array([True, False, True]), np.array([1, 2, 3], dtype=np.float32), -1))

# %% Plan
cond = bk.upload(np.array([True, False, True]))
a = bk.upload(np.array([1, 2, 3], dtype=np.float32))
b = bk.upload(np.array([-1], dtype=np.float32))  # one value, for every element
y = bk.empty(a.shape, bk.f32)
plan = bk.WherePlan.select(None, bk.WhereDescriptor(shape=a.shape, element=bk.f32))
plan.run(None, None, bk.WhereArgs(cond=cond, a=a, b=b, y=y))
print(bk.download(y))

# %% Plan of the gradient: where_backward_f32
dy = bk.upload(np.array([10, 20, 30], dtype=np.float32))
da, db = bk.empty(a.shape, bk.f32), bk.empty(b.shape, bk.f32)
back = bk.WhereBackwardPlan.select(None, bk.WhereBackwardDescriptor(shape=a.shape, element=bk.f32))
args = bk.WhereBackwardArgs(cond=cond, dy=dy, da=da, db=db)
back.run(None, bk.workspace(back, args), args)
print(bk.download(da), bk.download(db))
