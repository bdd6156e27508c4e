# %% Function
import numpy as np

import baracuda as bk

x = np.ones((1, 1, 3, 4), np.float32)  # batch, heads, sequence, features
y = bk.rope(x)  # at the positions 0, 1 and 2
print(y[0, 0])
print(bk.rope(x, np.array([2, 1, 0]))[0, 0])

# %% Gradient
print(np.allclose(bk.rope_backward(y), x))  # the inverse rotation

# %% Plan
x, y = bk.upload(x), bk.empty((1, 1, 3, 4), bk.f32)
of = {"batch_size": 1, "num_heads": 1, "seq_len": 3, "head_dim": 4, "pairing": bk.RotaryPairing.ADJACENT}
plan = bk.RopePlan.select(None, bk.RopeDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.RopeArgs(x=x, y=y, positions=bk.upload(np.array([5, 6, 7]))))
print(bk.download(y)[0, 0])

# %% Plan of the gradient
back = bk.RopeBackwardPlan.select(None, bk.RopeBackwardDescriptor(**of, element=bk.f32))
back.run(None, None, bk.RopeBackwardArgs(dy=y, dx=y, positions=bk.upload(np.array([4, 5, 6]))))  # in place
print(bk.download(y)[0, 0])  # a rotation by one position is left
