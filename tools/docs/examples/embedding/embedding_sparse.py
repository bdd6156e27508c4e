# %% Function
import numpy as np

import baracuda as bk

indices, dout = np.array([3, 2, 3, 0, 3]), np.arange(10, dtype=np.float32).reshape(5, 2)
rows, values, count = bk.embedding_sparse_backward(dout, indices, 4)
print(rows, count)  # three rows are named; behind them rows is -1 and values 0
print(values[: count[0]])

# %% Plan
of = {"num_embeddings": 4, "embedding_dim": 2, "num_indices": 5}
indices, dout = bk.upload(indices), bk.upload(dout)
rows, values, count = bk.empty((5,), bk.i64), bk.empty((5, 2), bk.f32), bk.empty((1,), bk.i64)
plan = bk.EmbeddingSparseBackwardPlan.select(None, bk.EmbeddingSparseBackwardDescriptor(**of, element=bk.f32))
args = bk.EmbeddingSparseBackwardArgs(dout=dout, indices=indices, rows=rows, values=values, count=count)
plan.run(None, bk.workspace(plan, args), args)
print(bk.download(rows), bk.download(values))
