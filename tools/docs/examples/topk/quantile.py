# %% Function
import numpy as np

import baracuda as bk

x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32)
print(bk.quantile(x, 0.5, axis=1))
print(bk.quantile(x, np.array([0.25, 0.75]), axis=1, interpolation="nearest"))

# %% Plan
x = bk.upload(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], dtype=np.float32))
q, y = bk.upload(np.array([0.25, 0.75])), bk.empty((2, 2), bk.f32)
lower, upper, weight = bk.empty((2, 2), bk.i64), bk.empty((2, 2), bk.i64), bk.empty((2, 2), bk.f64)
linear = bk.QuantileInterpolation.LINEAR
plan = bk.QuantilePlan.select(None, bk.QuantileDescriptor((2, 5), 1, 2, linear, element=bk.f32))
args = bk.QuantileArgs(input=x, q=q, y=y, lower=lower, upper=upper, weight=weight)
plan.run(None, bk.workspace(plan), args)
print(bk.download(y))

# %% Plan of the gradient
dx = bk.empty((2, 5), bk.f32)
back = bk.QuantileBackwardPlan.select(None, bk.QuantileBackwardDescriptor((2, 5), 1, 2, element=bk.f32))
back.run(None, bk.workspace(back), bk.QuantileBackwardArgs(dy=y, lower=lower, upper=upper, weight=weight, dx=dx))
print(bk.download(dx))
