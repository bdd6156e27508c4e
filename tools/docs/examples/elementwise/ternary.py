# %% Plan
import numpy as np

import baracuda as bk

a, b, c = (bk.upload(np.array(row, dtype=np.float32)) for row in ([-2, 0.5, 4], [-1, -1, 1], [1, 2, 3]))
y = bk.empty(a.shape, bk.f32)
of = bk.TernaryDescriptor(kind=bk.TernaryKind.CLAMP, shape=a.shape, element=bk.f32)
plan = bk.TernaryPlan.select(None, of)
plan.run(None, None, bk.TernaryArgs(a=a, b=b, c=c, y=y))
print(bk.download(y))

# %% Plan of the gradient: ternary_clamp_backward_f32
dy = bk.upload(np.ones(a.shape, dtype=np.float32))
da, db, dc = (bk.empty(a.shape, bk.f32) for _ in range(3))
of = bk.TernaryBackwardDescriptor(kind=bk.TernaryKind.CLAMP, shape=a.shape, element=bk.f32)
back = bk.TernaryBackwardPlan.select(None, of)
back.run(None, None, bk.TernaryBackwardArgs(dy=dy, a=a, b=b, c=c, da=da, db=db, dc=dc))
print(bk.download(da), bk.download(db), bk.download(dc))
