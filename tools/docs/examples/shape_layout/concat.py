# %% Function
import numpy as np

import baracuda as bk

a, b, c = np.array([[1, 2]], np.float32), np.array([[3, 4], [5, 6]], np.float32), np.array([[7, 8]], np.float32)
y = bk.concatenate([a, b, c])
print(y)
print(bk.stack([a, c], axis=-1))

# %% Gradient
print(*bk.split(y, [1, 3]), sep="\n")

# %% Plan
inputs, y = [bk.upload(each) for each in (a, b, c)], bk.empty((4, 2), bk.f32)
of = {"output_shape": (4, 2), "concat_dim": 0, "extents": (1, 2, 1), "element": bk.f32}
plan = bk.ConcatManyPlan.select(None, bk.ConcatManyDescriptor(**of))
plan.run(None, None, bk.ConcatManyArgs(inputs=inputs, y=y))
print(bk.download(y))

# %% Plan of the gradient
part = bk.empty((2, 2), bk.f32)
back = bk.ConcatManyBackwardPlan.select(None, bk.ConcatManyBackwardDescriptor(**of))
back.run(None, None, bk.ConcatManyBackwardArgs(dy=y, outputs=[None, part, None]))  # those of a and c are not wanted
print(bk.download(part))
