# %% Function
import numpy as np

import baracuda as bk

x = np.ones((2, 1, 2, 6), np.float32)  # batch, heads, sequence, features
positions = np.array([[0, 1], [7, 8]])  # the second sequence goes on after 7 tokens
y = bk.rope(x, positions, rotary_dim=4)
print(y[:, 0].round(3))

# %% Gradient
print(np.allclose(bk.rope_backward(y, positions, rotary_dim=4), x))  # the inverse rotation

# %% Plan
x, ids, y = bk.upload(x), bk.upload(positions), bk.empty((2, 1, 2, 6), bk.f32)
of = {"batch_size": 2, "num_heads": 1, "seq_len": 2, "head_dim": 6, "rotary_dim": 2}
of["pairing"] = bk.RotaryPairing.ADJACENT
plan = bk.RopePositionsPlan.select(None, bk.RopePositionsDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.RopePositionsArgs(x=x, y=y, positions=ids))
print(bk.download(y)[:, 0].round(3))

# %% Plan of the gradient
back = bk.RopePositionsBackwardPlan.select(None, bk.RopePositionsBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.RopePositionsBackwardArgs(dy=y, dx=y, positions=ids))  # in place
print(np.allclose(bk.download(y), 1))
