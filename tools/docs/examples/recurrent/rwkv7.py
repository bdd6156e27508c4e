# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
r, k, v, x = (rng.standard_normal((1, 6, 2, 4)).astype(np.float32) for _ in range(4))
w = -rng.random((1, 6, 2, 4)).astype(np.float32)
kappa = x / np.linalg.norm(x, axis=-1, keepdims=True)
rate = rng.random((1, 6, 2, 4)).astype(np.float32)
y, state = bk.rwkv7(r, w, k, v, -kappa, kappa * rate)
print(y.shape, state.shape)

# %% Gradient
dr, dw, dk, dv, da, db, dstate = bk.rwkv7_backward(np.ones_like(y), r, w, k, v, -kappa, kappa * rate)
print(dw.shape)

# %% One token
y, state = bk.rwkv7_update(r[:, 0], w[:, 0], k[:, 0], v[:, 0], -kappa[:, 0], kappa[:, 0] * rate[:, 0], state)
print(y)

# %% Plan
plan = bk.Rwkv7Plan.select(None, bk.Rwkv7Descriptor(1, 6, 1, 2, 4, 4, element=bk.f32))
arrays = {"r": r, "w": w, "k": k, "v": v, "a": -kappa, "b": kappa * rate}
given = {name: bk.upload(each) for name, each in arrays.items()}
y, final_state = bk.empty((1, 6, 2, 4), bk.f32), bk.empty((1, 2, 4, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.Rwkv7Args(**given, y=y, final_state=final_state))
print(bk.download(y)[0, -1])

# %% Plan of the gradient
plan = bk.Rwkv7BackwardPlan.select(None, bk.Rwkv7BackwardDescriptor(1, 6, 1, 2, 4, 4, element=bk.f32))
dw = bk.empty((1, 6, 2, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.Rwkv7BackwardArgs(dy=y, **given, dw=dw))
print(bk.download(dw)[0, 0])

# %% Plan of one token
plan = bk.Rwkv7UpdatePlan.select(None, bk.Rwkv7UpdateDescriptor(1, 2, 4, 4, element=bk.f32))
last = {name: bk.upload(each[:, -1]) for name, each in arrays.items()}
y = bk.empty((1, 2, 4), bk.f32)
args = bk.Rwkv7UpdateArgs(**last, state=final_state, y=y, new_state=final_state)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))
