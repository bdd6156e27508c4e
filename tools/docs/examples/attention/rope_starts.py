# %% Function
import numpy as np

import baracuda as bk

x = np.ones((2, 1, 2, 6), np.float32)  # batch, heads, sequence, features
starts = np.array([0, 7])  # the second sequence goes on after 7 tokens
y = bk.rope_starts(x, starts, rotary_dim=4)
print(y[:, 0].round(3))

# %% Gradient
print(np.allclose(bk.rope_starts_backward(y, starts, rotary_dim=4), x))  # the inverse rotation

# %% Plan
x, starts, y = bk.upload(x), bk.upload(starts), bk.empty((2, 1, 2, 6), bk.f32)
of = {"batch_size": 2, "num_heads": 1, "seq_len": 2, "head_dim": 6, "rotary_dim": 2}
of["pairing"] = bk.RotaryPairing.ADJACENT
plan = bk.RopeStartsPlan.select(None, bk.RopeStartsDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.RopeStartsArgs(x=x, y=y, starts=starts))
print(bk.download(y)[:, 0].round(3))

# %% Plan of the gradient
back = bk.RopeStartsBackwardPlan.select(None, bk.RopeStartsBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.RopeStartsBackwardArgs(dy=y, dx=y, starts=starts))  # in place
print(np.allclose(bk.download(y), 1))
