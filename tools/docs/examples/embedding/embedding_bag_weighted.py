# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2], np.int32)  # bags of 2, 0 and 3 indices
weight, scales = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([1, 0.5, 2, 1, 1], np.float32)
print(bk.embedding_bag_weighted(indices, weight, offsets, scales))

# %% Gradient of the table: embedding_bag_weighted_backward_f32
dout = np.ones((3, 2), np.float32)
print(bk.embedding_bag_weighted_backward(dout, indices, offsets, scales, 4))

# %% Gradient of the weights: embedding_bag_weights_backward_f32
print(bk.embedding_bag_weights_backward(dout, weight, indices, offsets))

# %% Plan
weight, indices, scales, dout = (bk.upload(a) for a in (weight, indices, scales, dout))
offsets = bk.upload(np.array([0, 2, 2, 5], np.int32))  # and the end of the last bag
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5, "include_last_offset": True}
operands, output = {"indices": indices, "offsets": offsets}, bk.empty((3, 2), bk.f32)
plan = bk.EmbeddingBagWeightedPlan.select(None, bk.EmbeddingBagWeightedDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.EmbeddingBagWeightedArgs(weight=weight, **operands, per_sample_weights=scales, output=output))
print(bk.download(output))

# %% Plan of the gradient of the table: embedding_bag_weighted_backward_f32
dweight = bk.zeros((4, 2), bk.f32)  # it is added to
back = bk.EmbeddingBagWeightedBackwardPlan.select(
    None, bk.EmbeddingBagWeightedBackwardDescriptor(**of, element=bk.f32), bk.PlanPreference(deterministic=True)
)
args = bk.EmbeddingBagWeightedBackwardArgs(dout=dout, **operands, per_sample_weights=scales, dweight=dweight)
back.run(None, bk.workspace(back, args), args)
print(bk.download(dweight))

# %% Plan of the gradient of the weights: embedding_bag_weights_backward_f32
dscales = bk.empty((5,), bk.f32)
back = bk.EmbeddingBagWeightsBackwardPlan.select(None, bk.EmbeddingBagWeightsBackwardDescriptor(**of, element=bk.f32))
args = bk.EmbeddingBagWeightsBackwardArgs(dout=dout, weight=weight, **operands, dper_sample_weights=dscales)
back.run(None, None, args)
print(bk.download(dscales))
