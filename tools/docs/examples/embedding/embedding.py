# %% Function
import numpy as np

import baracuda as bk

indices = np.array([0, 2, 3, 3, 1])
print(bk.embedding(indices, np.arange(8, dtype=np.float32).reshape(4, 2), padding_idx=1))

# %% Gradient: embedding_backward_f32
print(bk.embedding_backward(np.ones((5, 2), np.float32), indices, 4, padding_idx=1))

# %% Plan
weight = bk.upload(np.arange(8, dtype=np.float32).reshape(4, 2))
indices = bk.upload(np.array([0, 2, 3, 3, 1], dtype=np.int32))
of = {"num_embeddings": 4, "embedding_dim": 2, "num_indices": 5, "padding_idx": 1}
output = bk.empty((5, 2), bk.f32)
plan = bk.EmbeddingPlan.select(None, bk.EmbeddingDescriptor(**of, element=bk.f32))
plan.run(None, None, bk.EmbeddingArgs(weight=weight, indices=indices, output=output))
print(bk.download(output))

# %% Plan of the gradient: embedding_backward_f32
dout = bk.upload(np.ones((5, 2), dtype=np.float32))
dweight = bk.zeros((4, 2), bk.f32)  # it is added to
back = bk.EmbeddingBackwardPlan.select(
    None, bk.EmbeddingBackwardDescriptor(**of, element=bk.f32), bk.PlanPreference(deterministic=True)
)
back.run(None, bk.workspace(back), bk.EmbeddingBackwardArgs(dout=dout, indices=indices, dweight=dweight))
print(bk.download(dweight))
