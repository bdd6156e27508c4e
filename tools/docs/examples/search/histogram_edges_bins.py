# %% Function
import numpy as np

import baracuda as bk

x = np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)
print(bk.histogram_edges_bins(x, np.array([0, 0.5, 1], np.float32)))

# %% Plan
x, edges = bk.upload(np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)), bk.upload(np.array([0, 0.5, 1], np.float32))
bins = bk.empty((5,), bk.i32)
plan = bk.HistogramEdgesBinsPlan.select(None, bk.HistogramEdgesBinsDescriptor(5, 2, element=bk.f32))
plan.run(None, None, bk.HistogramEdgesBinsArgs(input=x, edges=edges, output=bins))
print(bk.download(bins))
