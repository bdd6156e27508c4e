# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
print(bk.masked_fill(x, x > 5, -1))

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
mask = bk.upload(np.arange(12).reshape(3, 4) > 5)
out = bk.empty((3, 4), bk.f32)
plan = bk.MaskedFillPlan.select(None, bk.MaskedFillDescriptor.of((3, 4), -1, element=bk.f32))
plan.run(None, None, bk.MaskedFillArgs(src=x, mask=mask, out=out))
print(bk.download(out))

# %% Plan of the gradient: masked_fill_backward_f32
dsrc = bk.empty((3, 4), bk.f32)
back = bk.MaskedFillBackwardPlan.select(None, bk.MaskedFillBackwardDescriptor((3, 4), element=bk.f32))
back.run(None, None, bk.MaskedFillBackwardArgs(dout=x, mask=mask, dsrc=dsrc))
print(bk.download(dsrc))
