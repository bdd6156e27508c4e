# %% Plan
import numpy as np

import baracuda as bk

x = bk.upload(np.array([[1, 2, -1, 0.5], [3, 4, 2, -2]], dtype=np.float32))
y = bk.empty((2, 2), bk.f32)  # half as long along split_dim
kind = bk.GatedActivationKind.GLU
of = bk.GatedActivationDescriptor(kind=kind, input_shape=x.shape, split_dim=1, element=bk.f32)
plan = bk.GatedActivationPlan.select(None, of)
plan.run(None, None, bk.GatedActivationArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient: gated_glu_backward_f32
dy = bk.upload(np.ones(y.shape, dtype=np.float32))
dx = bk.empty(x.shape, bk.f32)
of = bk.GatedActivationBackwardDescriptor(kind=kind, input_shape=x.shape, split_dim=1, element=bk.f32)
back = bk.GatedActivationBackwardPlan.select(None, of)
back.run(None, None, bk.GatedActivationBackwardArgs(x=x, dy=dy, dx=dx))
print(bk.download(dx))
