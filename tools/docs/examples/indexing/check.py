# %% Plan that checks its indices
import numpy as np

import baracuda as bk

x, out = bk.upload(np.arange(12, dtype=np.int32).reshape(3, 4)), bk.empty((2, 4), bk.i32)
idx = bk.upload(np.array([2, 3], dtype=np.int32))  # there is no row 3
of = bk.IndexSelectDescriptor((2, 4), 0, 3, element=bk.i32)
plan = bk.IndexSelectPlan.select(None, of, bk.PlanPreference(check_indices=True))
plan.run(None, bk.workspace(plan), bk.IndexSelectArgs(src=x, idx=idx, out=out))
bk.synchronize()
try:
    plan.check()
except bk.IndexOutOfRangeError as error:
    print(error)
