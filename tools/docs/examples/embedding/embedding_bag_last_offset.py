# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 4], np.int32)  # bags of 2 and 2 indices
weight = np.arange(8, dtype=np.float32).reshape(4, 2)
print(bk.embedding_bag_last_offset(indices, weight, offsets, mode="sum"))

# %% Gradient: embedding_bag_last_offset_backward_f32
dout = np.ones((2, 2), np.float32)
print(bk.embedding_bag_last_offset_backward(dout, indices, offsets, 4, mode="sum"))

# %% Plan
weight, indices, offsets, dout = (bk.upload(a) for a in (weight, indices, offsets, dout))
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 2, "total_indices": 5, "mode": bk.EmbeddingBagMode.MEAN}
output = bk.empty((2, 2), bk.f32)
plan = bk.EmbeddingBagLastOffsetPlan.select(None, bk.EmbeddingBagLastOffsetDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.EmbeddingBagLastOffsetArgs(weight=weight, indices=indices, offsets=offsets, output=output))
print(bk.download(output))

# %% Plan of the gradient: embedding_bag_last_offset_backward_f32
dweight = bk.zeros((4, 2), bk.f32)  # it is added to
back = bk.EmbeddingBagLastOffsetBackwardPlan.select(
    None, bk.EmbeddingBagLastOffsetBackwardDescriptor(**of, element=bk.f32), bk.PlanPreference(deterministic=True)
)
args = bk.EmbeddingBagLastOffsetBackwardArgs(dout=dout, indices=indices, offsets=offsets, dweight=dweight)
back.run(None, bk.workspace(back, args), args)
print(bk.download(dweight))
