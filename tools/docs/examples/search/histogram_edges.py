# %% Function
import numpy as np

import baracuda as bk

x = np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)
print(bk.histogram_edges_counts(x, np.array([0, 0.5, 1], np.float32)))

# %% Plan
x, edges = bk.upload(np.array([0.1, 0.5, 0.9, 1.0, 3.0], np.float32)), bk.upload(np.array([0, 0.5, 1], np.float32))
counts = bk.empty((2,), bk.i64)
plan = bk.HistogramEdgesPlan.select(None, bk.HistogramEdgesDescriptor(5, 2, element=bk.f32))
plan.run(None, None, bk.HistogramEdgesArgs(input=x, edges=edges, output=counts))
print(bk.download(counts))
