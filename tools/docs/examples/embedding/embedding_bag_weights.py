# %% Gradient: embedding_bag_weights_backward_f32
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2], np.int32)  # bags of 2, 0 and 3 indices
weight, dout = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((3, 2), np.float32)
print(bk.embedding_bag_weights_backward(dout, weight, indices, offsets))

# %% Plan: embedding_bag_weights_backward_f32
weight, indices, dout = (bk.upload(a) for a in (weight, indices, dout))
offsets = bk.upload(np.array([0, 2, 2, 5], np.int32))  # and the end of the last bag
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5, "include_last_offset": True}
plan = bk.EmbeddingBagWeightsBackwardPlan.select(None, bk.EmbeddingBagWeightsBackwardDescriptor(**of, element=bk.f32))
dscales = bk.empty((5,), bk.f32)
args = bk.EmbeddingBagWeightsBackwardArgs(
    dout=dout, weight=weight, indices=indices, offsets=offsets, dper_sample_weights=dscales
)
plan.run(None, None, args)
print(bk.download(dscales))
