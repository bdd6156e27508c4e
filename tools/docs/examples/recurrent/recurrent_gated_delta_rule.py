# %% Function
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 6, 2, 4)).astype(np.float32) for _ in range(3))
beta = rng.random((1, 6, 2)).astype(np.float32)
g = -rng.random((1, 6, 2)).astype(np.float32)
y, state = bk.gated_delta_rule(q, k, v, beta, g, l2norm=True)
print(y.shape, state.shape)

# %% Gradient
dq, dk, dv, dbeta, dg, dstate = bk.gated_delta_rule_backward(np.ones_like(y), q, k, v, beta, g, l2norm=True)
print(dg)

# %% One token
y, state = bk.gated_delta_rule_update(q[:, 0], k[:, 0], v[:, 0], beta[:, 0], state, g[:, 0], l2norm=True)
print(y)

# %% Plan
descriptor = bk.GatedDeltaRuleDescriptor(1, 6, 1, 2, 2, 4, 4, l2norm=True, scale=0.5, element=bk.f32)
plan = bk.GatedDeltaRulePlan.select(None, descriptor)
given = {name: bk.upload(each) for name, each in {"q": q, "k": k, "v": v, "beta": beta, "g": g}.items()}
y, final_state = bk.empty((1, 6, 2, 4), bk.f32), bk.empty((1, 2, 4, 4), bk.f32)
plan.run(None, bk.workspace(plan), bk.GatedDeltaRuleArgs(**given, y=y, final_state=final_state))
print(bk.download(y)[0, -1])

# %% Plan of the gradient
descriptor = bk.GatedDeltaRuleBackwardDescriptor(1, 6, 1, 2, 2, 4, 4, l2norm=True, scale=0.5, element=bk.f32)
plan = bk.GatedDeltaRuleBackwardPlan.select(None, descriptor)
dg = bk.empty((1, 6, 2), bk.f32)
plan.run(None, bk.workspace(plan), bk.GatedDeltaRuleBackwardArgs(dy=y, **given, dg=dg))
print(bk.download(dg))

# %% Plan of one token
descriptor = bk.GatedDeltaRuleUpdateDescriptor(1, 2, 2, 4, 4, l2norm=True, scale=0.5, element=bk.f32)
plan = bk.GatedDeltaRuleUpdatePlan.select(None, descriptor)
last = {name: bk.upload(each[:, -1]) for name, each in {"q": q, "k": k, "v": v, "beta": beta, "g": g}.items()}
y = bk.empty((1, 2, 4), bk.f32)
args = bk.GatedDeltaRuleUpdateArgs(**last, state=final_state, y=y, new_state=final_state)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))
