# %% Function
import numpy as np

import baracuda as bk

logits = np.array([[1.0, 3.0, 2.0, 0.5], [0.0, 0.0, 4.0, 1.0]], dtype=np.float32)
weights, ids = bk.moe_route(logits, 2)
print(ids, weights)

# %% Gradient
dweights = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
print(bk.moe_route_backward(dweights, logits, ids))

# %% Plan
scoring, group = bk.ExpertScoring.SOFTMAX, bk.ExpertGroupScore.MAX
plan = bk.MoeRoutePlan.select(None, bk.MoeRouteDescriptor(2, 4, 2, scoring, group, element=bk.f32))
weights, ids = bk.empty((2, 2), bk.f32), bk.empty((2, 2), bk.i32)
plan.run(None, bk.workspace(plan), bk.MoeRouteArgs(logits=bk.upload(logits), weights=weights, ids=ids))
print(bk.download(ids), bk.download(weights))

# %% Plan of the gradient
plan = bk.MoeRouteBackwardPlan.select(None, bk.MoeRouteBackwardDescriptor(2, 4, 2, scoring, element=bk.f32))
dlogits = bk.empty((2, 4), bk.f32)
args = bk.MoeRouteBackwardArgs(dweights=bk.upload(dweights), logits=bk.upload(logits), ids=ids, dlogits=dlogits)
plan.run(None, bk.workspace(plan), args)
print(bk.download(dlogits))
