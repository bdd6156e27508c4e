# %% Plan with parameters: unary_elu_param_f32
import numpy as np

import baracuda as bk

x = bk.upload(np.array([-2, -0.5, 0.25, 1.5, 3], dtype=np.float32))
y = bk.empty(x.shape, bk.f32)
of = bk.UnaryParamDescriptor(kind=bk.UnaryKind.ELU, shape=x.shape, params=(1.0,), element=bk.f32)
plan = bk.UnaryParamPlan.select(None, of)
plan.run(None, None, bk.UnaryParamArgs(x=x, y=y))
print(bk.download(y))

# %% Plan of the gradient with parameters: unary_elu_param_backward_f32
dy = bk.upload(np.ones(x.shape, dtype=np.float32))
dx = bk.empty(x.shape, bk.f32)
of = bk.UnaryParamBackwardDescriptor(kind=bk.UnaryKind.ELU, shape=x.shape, params=(1.0,), element=bk.f32)
back = bk.UnaryParamBackwardPlan.select(None, of)
back.run(None, None, bk.UnaryParamBackwardArgs(dy=dy, x=x, dx=dx))
print(bk.download(dx))
