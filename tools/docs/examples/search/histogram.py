# %% Function
import numpy as np

import baracuda as bk

x = np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)
print(*bk.histogram(x, 2, range=(0, 1)))

# %% Plan
x, counts = bk.upload(np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)), bk.empty((2,), bk.i64)
plan = bk.HistogramPlan.select(None, bk.HistogramDescriptor(5, 2, 0.0, 1.0, element=bk.f32))
plan.run(None, None, bk.HistogramArgs(input=x, output=counts))
print(bk.download(counts))
