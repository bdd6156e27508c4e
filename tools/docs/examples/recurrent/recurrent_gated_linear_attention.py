# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 6, 2, 4)).astype(np.float32) for _ in range(3))
g = -rng.random((1, 6, 2, 4)).astype(np.float32)
y, state = bk.gated_linear_attention(q, k, v, g)
print(y.shape, state.shape)

# %% Sequences in one array
offsets = np.array([0, 2, 6], dtype=np.int32)
y, states = bk.gated_linear_attention(q, k, v, g, cu_seqlens=offsets)
print(states.shape)

# %% Gradient
dq, dk, dv, dg, dbonus, dstate = bk.gated_linear_attention_backward(np.ones_like(y), q, k, v, g)
print(dg.shape)

# %% One token
y, state = bk.gated_linear_attention_update(q[:, 0], k[:, 0], v[:, 0], state, g[:, 0])
print(y)

# %% Plan
descriptor = bk.GatedLinearAttentionDescriptor(1, 6, 1, 2, 2, 4, 4, gate_width=4, scale=0.5, element=bk.f32)
plan = bk.GatedLinearAttentionPlan.select(None, descriptor)
given = {name: bk.upload(each) for name, each in {"q": q, "k": k, "v": v, "g": g}.items()}
y, final_state = bk.empty((1, 6, 2, 4), bk.f32), bk.empty((1, 2, 4, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.GatedLinearAttentionArgs(**given, y=y, final_state=final_state))
print(bk.download(y)[0, -1])

# %% Plan of the gradient
descriptor = bk.GatedLinearAttentionBackwardDescriptor(1, 6, 1, 2, 2, 4, 4, gate_width=4, scale=0.5, element=bk.f32)
plan = bk.GatedLinearAttentionBackwardPlan.select(None, descriptor)
dg = bk.empty((1, 6, 2, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.GatedLinearAttentionBackwardArgs(dy=y, **given, dg=dg))
print(bk.download(dg)[0, 0])

# %% Plan of one token
descriptor = bk.GatedLinearAttentionUpdateDescriptor(1, 2, 2, 4, 4, gate_width=4, scale=0.5, element=bk.f32)
plan = bk.GatedLinearAttentionUpdatePlan.select(None, descriptor)
last = {name: bk.upload(each[:, -1]) for name, each in {"q": q, "k": k, "v": v, "g": g}.items()}
y = bk.empty((1, 2, 4), bk.f32)
args = bk.GatedLinearAttentionUpdateArgs(**last, state=final_state, y=y, new_state=final_state)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))
