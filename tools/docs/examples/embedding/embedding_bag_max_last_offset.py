# %% Function
import numpy as np

import baracuda as bk

indices, offsets = np.array([0, 2, 3, 3, 1]), np.array([0, 2, 2, 4])  # the last bag ends before the last index
weight = np.array([[1, 9], [5, 0], [4, 2], [3, 3]], np.float32)
out, rows = bk.embedding_bag_max(indices, weight, offsets, include_last_offset=True)
print(out, rows, sep="\n")

# %% Plan
of = {"num_embeddings": 4, "embedding_dim": 2, "num_bags": 3, "total_indices": 5, "include_last_offset": True}
output, output_index = bk.empty((3, 2), bk.f32), bk.empty((3, 2), bk.i64)
plan = bk.EmbeddingBagMaxLastOffsetPlan.select(None, bk.EmbeddingBagMaxLastOffsetDescriptor(**of, element=bk.f32))
args = bk.EmbeddingBagMaxLastOffsetArgs(
    weight=bk.upload(weight), indices=bk.upload(indices), offsets=bk.upload(offsets), output=output,
    output_index=output_index,
)  # fmt: skip
plan.run(None, None, args)
print(bk.download(output))
