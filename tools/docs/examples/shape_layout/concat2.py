# %% Function
import numpy as np

import baracuda as bk

a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5], [6]], np.float32)
y = bk.concat(a, b, axis=1)
print(y)

# %% Gradient
print(*bk.concat_backward(y, 2, axis=1), sep="\n")

# %% Plan
a, b, y = bk.upload(a), bk.upload(b), bk.empty((2, 3), bk.f32)
plan = bk.ConcatPlan.select(None, bk.ConcatDescriptor((2, 2), (2, 1), concat_dim=1, element=bk.f32))
plan.run(None, None, bk.ConcatArgs(a=a, b=b, y=y))
print(bk.download(y))

# %% Plan of the gradient
db = bk.empty((2, 1), bk.f32)
of = bk.ConcatBackwardDescriptor((2, 3), concat_dim=1, split_offset=2, element=bk.f32)
back = bk.ConcatBackwardPlan.select(None, of)
back.run(None, None, bk.ConcatBackwardArgs(dy=y, db=db))  # that of a is not wanted
print(bk.download(db))
