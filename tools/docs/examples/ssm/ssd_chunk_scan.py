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

# %% Plan of the gradient
descriptor = bk.SsdChunkScanBackwardDescriptor(1, 3, 1, 2, 4, 64, element=bk.f32)
plan = bk.SsdChunkScanBackwardPlan.select(None, descriptor)
given = {name: getattr(args, name) for name in ("x", "dt", "a", "b", "c")}
shapes = {"dx": x.shape, "d_dt": dt.shape, "d_a": (1,), "d_b": b.shape, "d_c": b.shape}
results = {name: bk.empty(shape, bk.f32) for name, shape in shapes.items()}
args = bk.SsdChunkScanBackwardArgs(**given, dy=bk.upload(np.ones_like(x)), **results)
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.d_dt), bk.download(args.d_a))
