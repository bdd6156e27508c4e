# %% Function
import numpy as np

import baracuda as bk

print(bk.lerp(np.array([0, 1, -2], dtype=np.float32), np.array([10, 3, 2], dtype=np.float32), 0.25))

# %% Plan
a = bk.upload(np.array([0, 1, -2], dtype=np.float32))
b = bk.upload(np.array([10, 3, 2], dtype=np.float32))
y = bk.empty(a.shape, bk.f32)
of = bk.BinaryParamDescriptor(kind=bk.BinaryKind.LERP, shape=a.shape, params=(0.25,), element=bk.f32)
plan = bk.BinaryParamPlan.select(None, of)
plan.run(None, None, bk.BinaryParamArgs(a=a, b=b, y=y))
print(bk.download(y))

# %% Plan of the gradient: binary_lerp_param_backward_f32
dy = bk.upload(np.ones(a.shape, dtype=np.float32))
da, db = bk.empty(a.shape, bk.f32), bk.empty(a.shape, bk.f32)
of = bk.BinaryParamBackwardDescriptor(kind=bk.BinaryKind.LERP, shape=a.shape, params=(0.25,), element=bk.f32)
back = bk.BinaryParamBackwardPlan.select(None, of)
back.run(None, None, bk.BinaryParamBackwardArgs(dy=dy, da=da, db=db))
print(bk.download(da), bk.download(db))
