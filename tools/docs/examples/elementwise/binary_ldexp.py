# %% Function
import numpy as np

import baracuda as bk

print(bk.ldexp(np.array([1, 0.75, -3], dtype=np.float32), np.array([4, -2, 1], dtype=np.int32)))

# %% Plan
a = bk.upload(np.array([1, 0.75, -3], dtype=np.float32))
b = bk.upload(np.array([4, -2, 1], dtype=np.int32))
y = bk.empty(a.shape, bk.f32)
plan = bk.BinaryPlan.select(None, bk.BinaryDescriptor(kind=bk.BinaryKind.LDEXP, shape=a.shape, element=bk.f32))
plan.run(None, None, bk.BinaryArgs(a=a, b=b, y=y))
print(bk.download(y))

# %% Plan of the gradient: binary_ldexp_backward_f32
dy = bk.upload(np.ones(a.shape, dtype=np.float32))
da = bk.empty(a.shape, bk.f32)
of = bk.BinaryBackwardDescriptor(kind=bk.BinaryKind.LDEXP, shape=a.shape, element=bk.f32)
back = bk.BinaryBackwardPlan.select(None, of)
back.run(None, None, bk.BinaryBackwardArgs(dy=dy, b=b, da=da))
print(bk.download(da))
