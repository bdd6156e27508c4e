# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2], np.int32)  # bags of 2, 0 and 3 indices
weight = np.array([[1, 9], [5, 0], [4, 2], [3, 3]], np.float32)
out, rows = bk.embedding_bag_max(indices, weight, offsets)
print(out, rows, sep="\n")

# %% Gradient: embedding_bag_max_backward_f32
print(bk.embedding_bag_max_backward(np.ones((3, 2), np.float32), rows, 4))

# %% Plan
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5}
output, output_index = bk.empty((3, 2), bk.f32), bk.empty((3, 2), bk.i32)
plan = bk.EmbeddingBagMaxPlan.select(None, bk.EmbeddingBagMaxDescriptor(**of, element=bk.f32))
args = bk.EmbeddingBagMaxArgs(
    weight=bk.upload(weight), indices=bk.upload(indices), offsets=bk.upload(offsets), output=output,
    output_index=output_index,
)  # fmt: skip
plan.run(None, None, args)
print(bk.download(output))

# %% Plan of the gradient: embedding_bag_max_backward_f32
dout, dweight = bk.upload(np.ones((3, 2), dtype=np.float32)), bk.zeros((4, 2), bk.f32)  # which is added to
back = bk.EmbeddingBagMaxBackwardPlan.select(None, bk.EmbeddingBagMaxBackwardDescriptor(4, 2, 3, element=bk.f32))
args = bk.EmbeddingBagMaxBackwardArgs(dout=dout, output_index=output_index, dweight=dweight)
back.run(None, bk.workspace(back), args)
print(bk.download(dweight))
