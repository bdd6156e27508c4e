# %% Function
import numpy as np

import baracuda as bk

weight = np.array([[3, 4], [6, 8], [0.5, 0]], np.float32)
indices = np.array([0, 2, 0])
print(bk.embedding_renorm(indices, weight, 1))

# %% Plan
table = bk.upload(weight)
plan = bk.EmbeddingRenormPlan.select(None, bk.EmbeddingRenormDescriptor(3, 2, 3, max_norm=1, element=bk.f32))
args = bk.EmbeddingRenormArgs(weight=table, indices=bk.upload(indices), output=table)  # in place
plan.run(None, bk.workspace(plan, args), args)
print(bk.download(table))
