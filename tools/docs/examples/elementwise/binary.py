# %% Plan
import numpy as np

import baracuda as bk

a = bk.upload(np.array([[-2, 0.5, 1], [4, 5.5, -7]], dtype=np.float32))
b = bk.upload(np.array([[2, -1.5, 3]], dtype=np.float32))  # one row, for both rows of a
y = bk.empty(a.shape, bk.f32)
plan = bk.BinaryPlan.select(None, bk.BinaryDescriptor(kind=bk.BinaryKind.MUL, shape=a.shape, element=bk.f32))
plan.run(None, None, bk.BinaryArgs(a=a, b=b, y=y))
print(bk.download(y))

# %% Plan of the gradient: binary_mul_backward_f32
dy = bk.upload(np.ones(a.shape, dtype=np.float32))
da, db = bk.empty(a.shape, bk.f32), bk.empty(b.shape, bk.f32)
of = bk.BinaryBackwardDescriptor(kind=bk.BinaryKind.MUL, shape=a.shape, element=bk.f32)
back = bk.BinaryBackwardPlan.select(None, of)
args = bk.BinaryBackwardArgs(dy=dy, a=a, b=b, da=da, db=db)
back.run(None, bk.workspace(back, args), args)  # db is summed over the rows
print(bk.download(da), bk.download(db))
