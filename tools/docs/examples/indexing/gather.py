# %% Function
import numpy as np

import baracuda as bk

x = np.arange(12, dtype=np.float32).reshape(3, 4)
index = np.array([[3, 0], [1, 1], [0, 2]])
print(bk.gather(x, index))

# %% Plan
x = bk.upload(np.arange(12, dtype=np.float32).reshape(3, 4))
index = bk.upload(np.array([[3, 0], [1, 1], [0, 2]], dtype=np.int32))
out = bk.empty((3, 2), bk.f32)
plan = bk.GatherPlan.select(None, bk.GatherDescriptor((3, 2), gather_dim=1, src_dim_size=4, element=bk.f32))
plan.run(None, None, bk.GatherArgs(src=x, index=index, out=out))
print(bk.download(out))

# %% Plan of the gradient: gather_backward_f32
dout, dsrc = bk.upload(np.ones((3, 2), dtype=np.float32)), bk.zeros((3, 4), bk.f32)
of = bk.GatherBackwardDescriptor((3, 2), gather_dim=1, src_dim_size=4, element=bk.f32)
back = bk.GatherBackwardPlan.select(None, of)
back.run(None, bk.workspace(back), bk.GatherBackwardArgs(dout=dout, index=index, dsrc=dsrc))
print(bk.download(dsrc))
