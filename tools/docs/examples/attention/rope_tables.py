# %% Function
import numpy as np

import baracuda as bk

x, dy = np.arange(8, dtype=np.float32).reshape(2, 1, 4), np.ones((2, 1, 4), np.float32)  # 2 rows per position
dcos, dsin = bk.rope_tables_backward(dy, x)
print(dcos, dsin, sep="\n")

# %% Plan
dcos = bk.empty((1, 2), bk.f32)
plan = bk.RopeTablesBackwardPlan.select(None, bk.RopeTablesBackwardDescriptor(2, 1, 1, 4, element=bk.f32))
dy, x = (bk.upload(a.reshape(2, 1, 1, 4)) for a in (dy, x))
plan.run(None, None, bk.RopeTablesBackwardArgs(dy=dy, x=x, dcos=dcos))  # that of the sines is not wanted
print(bk.download(dcos))
