# %% Function
import numpy as np

import baracuda as bk

cos, sin = bk.RopeScaledTableBuilder(head_dim=4, max_seq_len=3).build(np.float32)
x = np.ones((2, 3, 4), np.float32)  # rows of batch and heads, sequence, features
y = bk.rope_apply(x, cos, sin)
print(y[0])

# %% Gradient
print(np.allclose(bk.rope_apply_backward(y, cos, sin), x))  # the inverse rotation

# %% Plan
x, y = bk.upload(x), bk.empty((2, 3, 4), bk.f32)
tables = {"cos": bk.upload(cos), "sin": bk.upload(sin)}
of = {"num_rows": 2, "seq_len": 3, "head_dim": 4, "pairing": bk.RotaryPairing.ADJACENT}
plan = bk.RopeApplyPlan.select(None, bk.RopeApplyDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.RopeApplyArgs(x=x, **tables, y=y))
print(bk.download(y)[1])

# %% Plan of the gradient
back = bk.RopeApplyBackwardPlan.select(None, bk.RopeApplyBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.RopeApplyBackwardArgs(dy=y, **tables, dx=y))  # in place
print(np.allclose(bk.download(y), 1))
