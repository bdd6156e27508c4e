# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2])  # bags of 2, 0 and 3 indices
dout, scales = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 0.5, 2, 1, 1], np.float32)
print(bk.embedding_bag_dense_backward(dout, indices, offsets, 4, mode="sum", scale_grad_by_freq=True))
print(bk.embedding_bag_dense_backward(dout, indices, offsets, 4, scales, mode="mean"))

# %% Plan
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5, "mode": bk.EmbeddingBagMode.SUM}
indices, offsets, dout, scales = (bk.upload(a) for a in (indices, offsets, dout, scales))
dweight = bk.zeros((4, 2), bk.f32)  # it is added to
plan = bk.EmbeddingBagDenseBackwardPlan.select(
    None, bk.EmbeddingBagDenseBackwardDescriptor(**of, scale_grad_by_freq=True, element=bk.f32),
    bk.PlanPreference(deterministic=True),
)  # fmt: skip
args = bk.EmbeddingBagDenseBackwardArgs(
    dout=dout, indices=indices, offsets=offsets, per_sample_weights=scales, dweight=dweight
)
plan.run(None, bk.workspace(plan, args), args)
print(bk.download(dweight))
