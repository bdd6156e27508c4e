# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
print(bk.index_select(x, np.array([2, 0])))
print(bk.index_select(x, np.array([3, 3]), axis=1))

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
idx = bk.upload(np.array([2, 0], dtype=np.int32))
out = bk.empty((2, 4), bk.f32)
plan = bk.IndexSelectPlan.select(None, bk.IndexSelectDescriptor((2, 4), 0, 3, element=bk.f32))
plan.run(None, None, bk.IndexSelectArgs(src=x, idx=idx, out=out))
print(bk.download(out))

# %% Plan of the gradient: index_select_backward_f32
dout, dsrc = bk.upload(np.ones((2, 4), dtype=np.float32)), bk.zeros((3, 4), bk.f32)
back = bk.IndexSelectBackwardPlan.select(None, bk.IndexSelectBackwardDescriptor((2, 4), 0, 3, element=bk.f32))
back.run(None, bk.workspace(back), bk.IndexSelectBackwardArgs(dout=dout, idx=idx, dsrc=dsrc))
print(bk.download(dsrc))
