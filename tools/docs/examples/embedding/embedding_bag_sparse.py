# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([3, 2, 3, 0, 3]), np.array([0, 2, 2])  # bags of 2, 0 and 3 indices
dout = np.arange(6, dtype=np.float32).reshape(3, 2)
rows, values, count = bk.embedding_bag_sparse_backward(dout, indices, offsets, 4, mode="sum")
print(rows, count)  # three rows are named; behind them rows is -1 and values 0
print(values[: count[0]])

# %% Plan
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5, "mode": bk.EmbeddingBagMode.SUM}
indices, offsets, dout = (bk.upload(a) for a in (indices, offsets, dout))
rows, values, count = bk.empty((5,), bk.i64), bk.empty((5, 2), bk.f32), bk.empty((1,), bk.i64)
plan = bk.EmbeddingBagSparseBackwardPlan.select(None, bk.EmbeddingBagSparseBackwardDescriptor(**of, element=bk.f32))
operands = {"dout": dout, "indices": indices, "offsets": offsets, "per_sample_weights": None}
args = bk.EmbeddingBagSparseBackwardArgs(**operands, rows=rows, values=values, count=count)
plan.run(None, bk.workspace(plan, args), args)
print(bk.download(rows), bk.download(values))
