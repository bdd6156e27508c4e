# %% Function
import numpy as np

import baracuda as bk

ids = np.array([[1, 0], [2, 1], [1, -1]], dtype=np.int32)  # the last slot has no expert
order, position, expert_of, counts, offsets = bk.moe_sort(ids, 3)
print(order, position, counts, offsets)

# %% Plan
plan = bk.MoeSortPlan.select(None, bk.MoeSortDescriptor(3, 2, 3, element=bk.i32))
made = {"order": (6,), "position": (3, 2), "expert_of": (6,), "counts": (3,), "offsets": (4,)}
args = bk.MoeSortArgs(ids=bk.upload(ids), **{name: bk.empty(shape, bk.i32) for name, shape in made.items()})
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.order), bk.download(args.offsets))
