# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2], np.int32)  # bags of 2, 0 and 3 indices
print(bk.embedding_bag(indices, np.arange(8, dtype=np.float32).reshape(4, 2), offsets, mode="sum"))

# %% Plan
weight = bk.upload(np.arange(8, dtype=np.float32).reshape(4, 2))
indices = bk.upload(np.array([0, 2, 3, 3, 1], dtype=np.int32))
offsets = bk.upload(np.array([0, 2, 2], dtype=np.int32))  # bags of 2, 0 and 3 indices
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5, "mode": bk.EmbeddingBagMode.SUM}
output = bk.empty((3, 2), bk.f32)
plan = bk.EmbeddingBagPlan.select(None, bk.EmbeddingBagDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.EmbeddingBagArgs(weight=weight, indices=indices, offsets=offsets, output=output))
print(bk.download(output))

# %% Plan of the gradient: embedding_bag_backward_f32
dout = bk.upload(np.ones((3, 2), dtype=np.float32))
dweight = bk.zeros((4, 2), bk.f32)  # it is added to
back = bk.EmbeddingBagBackwardPlan.select(
    None, bk.EmbeddingBagBackwardDescriptor(**of, element=bk.f32), bk.PlanPreference(deterministic=True)
)
args = bk.EmbeddingBagBackwardArgs(dout=dout, indices=indices, offsets=offsets, dweight=dweight)
back.run(None, bk.workspace(back), args)
print(bk.download(dweight))
