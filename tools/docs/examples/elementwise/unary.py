# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.array([-2, -0.5, 0.25, 1.5, 3], dtype=np.float32))
y = bk.empty(x.shape, bk.f32)
plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, shape=x.shape, element=bk.f32))
plan.run(None, None, bk.UnaryArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient: unary_gelu_backward_f32
dy = bk.upload(np.ones(x.shape, dtype=np.float32))
dx = bk.empty(x.shape, bk.f32)
of = bk.UnaryBackwardDescriptor(kind=bk.UnaryKind.GELU, shape=x.shape, element=bk.f32)
back = bk.UnaryBackwardPlan.select(None, of)
back.run(None, None, bk.UnaryBackwardArgs(dy=dy, x=x, dx=dx))
print(bk.download(dx))
