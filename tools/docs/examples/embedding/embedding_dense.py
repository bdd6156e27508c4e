# %% Function
import numpy as np

import baracuda as bk

indices, dout = np.array([0, 2, 3, 3, 1]), np.arange(10, dtype=np.float32).reshape(5, 2)
print(bk.embedding_dense_backward(dout, indices, 4, padding_idx=1))
print(bk.embedding_dense_backward(dout, indices, 4, scale_grad_by_freq=True))  # row 3, named twice, is a mean

# %% Plan
of = {"num_embeddings": 4, "embedding_dim": 2, "num_indices": 5, "scale_grad_by_freq": True}
indices, dout = bk.upload(indices), bk.upload(dout)
dweight = bk.zeros((4, 2), bk.f32)  # it is added to
plan = bk.EmbeddingDenseBackwardPlan.select(
    None, bk.EmbeddingDenseBackwardDescriptor(**of, element=bk.f32), bk.PlanPreference(deterministic=True)
)
args = bk.EmbeddingDenseBackwardArgs(dout=dout, indices=indices, dweight=dweight)
plan.run(None, bk.workspace(plan, args), args)
print(bk.download(dweight))
