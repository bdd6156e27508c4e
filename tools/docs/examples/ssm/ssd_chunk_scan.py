# %% Plan
import numpy as np

import baracuda as bk

x = np.ones((1, 3, 1, 2), np.float32)  # (batch, tokens, heads, head_dim)
dt, b = np.ones((1, 3, 1), np.float32), np.ones((1, 3, 1, 4), np.float32)
plan = bk.SsdChunkScanPlan.select(None, bk.SsdChunkScanDescriptor(1, 3, 1, 2, 4, 64, element=bk.f32))
args = bk.SsdChunkScanArgs(
    x=bk.upload(x), dt=bk.upload(dt), a=bk.upload(np.array([-0.5], np.float32)), b=bk.upload(b), c=bk.upload(b),
    y=bk.empty((1, 3, 1, 2), bk.f32),
)  # fmt: skip
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.y))
