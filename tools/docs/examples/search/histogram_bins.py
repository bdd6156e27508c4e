# %% Function
import numpy as np

import baracuda as bk

x = np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)
print(bk.histogram_bins(x, num_bins=2, low=0, high=1))

# %% Plan
x, bins = bk.upload(np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)), bk.empty((5,), bk.i32)
plan = bk.HistogramBinsPlan.select(None, bk.HistogramBinsDescriptor(5, 2, 0.0, 1.0, element=bk.f32))
plan.run(None, None, bk.HistogramBinsArgs(input=x, output=bins))
print(bk.download(bins))
