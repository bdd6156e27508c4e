# %% Function
import numpy as np

import baracuda as bk

cos, sin = bk.RopeScaledTableBuilder(head_dim=4, max_seq_len=16).build(np.float32)
positions = [0, 1, 2, 0, 1]  # sequences of 3 and 2 tokens, packed
cos, sin = cos[positions], sin[positions]
x = np.ones((5, 1, 4), np.float32)  # tokens, heads, features
y = bk.rope_apply_thd(x, cos, sin)
print(y[:, 0])

# %% Gradient
print(np.allclose(bk.rope_apply_thd_backward(y, cos, sin), x))  # the inverse rotation

# %% Plan
x, y = bk.upload(x), bk.empty((5, 1, 4), bk.f32)
tables = {"cos": bk.upload(cos), "sin": bk.upload(sin)}
of = {"num_tokens": 5, "num_heads": 1, "head_dim": 4, "pairing": bk.RotaryPairing.ADJACENT}
plan = bk.RopeApplyThdPlan.select(None, bk.RopeApplyThdDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.RopeApplyThdArgs(x=x, **tables, y=y))
print(bk.download(y)[2:4, 0])

# %% Plan of the gradient
back = bk.RopeApplyThdBackwardPlan.select(None, bk.RopeApplyThdBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.RopeApplyThdBackwardArgs(dy=y, **tables, dx=y))  # in place
print(np.allclose(bk.download(y), 1))
