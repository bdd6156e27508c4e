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
