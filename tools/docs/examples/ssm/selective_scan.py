# %% Plan
import numpy as np

import baracuda as bk

u = np.ones((1, 3, 1), np.float32)  # (batch, tokens, channels)
of_states = np.ones((1, 3, 1), np.float32)
plan = bk.SelectiveScanPlan.select(None, bk.SelectiveScanDescriptor(1, 3, 1, 1, element=bk.f32))
args = bk.SelectiveScanArgs(
    u=bk.upload(u), delta=bk.upload(u), a=bk.upload(np.full((1, 1), -0.5, np.float32)), b=bk.upload(of_states),
    c=bk.upload(of_states), d_skip=None, z=None, delta_bias=None, y=bk.empty((1, 3, 1), bk.f32), last_state=None,
)  # fmt: skip
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.y))

# %% Plan of the gradient
plan = bk.SelectiveScanBackwardPlan.select(None, bk.SelectiveScanBackwardDescriptor(1, 3, 1, 1, element=bk.f32))
given = {name: getattr(args, name) for name in ("u", "delta", "a", "b", "c")}
of_tokens = {name: bk.empty((1, 3, 1), bk.f32) for name in ("du", "d_delta")}
sums = {"d_a": bk.zeros((1, 1), bk.f32)} | {name: bk.zeros((1, 3, 1), bk.f32) for name in ("d_b", "d_c")}  # added to
args = bk.SelectiveScanBackwardArgs(**given, dy=bk.upload(u), **of_tokens, **sums)
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.du), bk.download(args.d_a))
