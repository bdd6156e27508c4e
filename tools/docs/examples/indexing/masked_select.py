# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
print(bk.masked_select(x, x > 5, max_selected=4))  # of 6

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
mask = bk.upload(np.arange(12).reshape(3, 4) > 5)
out, counter = bk.zeros((8,), bk.f32), bk.empty((1,), bk.i64)
plan = bk.MaskedSelectPlan.select(None, bk.MaskedSelectDescriptor((3, 4), 8, element=bk.f32))
plan.run(None, bk.workspace(plan), bk.MaskedSelectArgs(src=x, mask=mask, out=out, counter=counter))
print(bk.download(out), bk.download(counter))

# %% Plan of the gradient: masked_select_backward_f32
dsrc = bk.empty((3, 4), bk.f32)
back = bk.MaskedSelectBackwardPlan.select(None, bk.MaskedSelectBackwardDescriptor((3, 4), 8, element=bk.f32))
back.run(None, bk.workspace(back), bk.MaskedSelectBackwardArgs(dout=out, mask=mask, dsrc=dsrc))
print(bk.download(dsrc))
