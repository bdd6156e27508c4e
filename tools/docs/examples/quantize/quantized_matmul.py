# %% Function
import numpy as np

import baracuda as bk

weights = np.zeros((3, 34), dtype=np.uint8)  # three rows of one q8_0 block: a scale and 32 codes
weights[:, :2] = np.array([[0.5], [1.0], [2.0]], dtype=np.float16).view(np.uint8)
weights[:, 2:] = np.arange(32)
x = np.ones((2, 32), dtype=np.float32)
print(bk.quantized_matmul(x, weights, "q8_0"))

# %% Plan
y = bk.empty((2, 3), bk.f32)
plan = bk.QuantizedMatmulPlan.select(
    None, bk.QuantizedMatmulDescriptor(bk.GgufBlockFormat.Q8_0, m=2, n=3, k=32, element=bk.f32)
)
plan.run(None, bk.workspace(plan), bk.QuantizedMatmulArgs(x=bk.upload(x), w=bk.upload(weights), y=y))
print(bk.download(y))

# %% Rows of experts
ids, offsets = (
    np.array([1, 0], np.int32),
    np.array([0, 1, 2], np.int32),
)  # row 1 to the first expert, row 0 to the second
experts = bk.upload(np.concatenate([weights, weights]).reshape(-1))
y = bk.empty((2, 3), bk.f32)
plan = bk.GgufMmvqBatchedPlan.select(
    None, bk.GgufMmvqBatchedDescriptor(bk.GgufBlockFormat.Q8_0, 2, 3, 32, m_total=2, top_k=1, element=bk.f32)
)
args = bk.GgufMmvqBatchedArgs(
    weights=experts,
    activations=bk.upload(x),
    sorted_token_ids=bk.upload(ids),
    expert_offsets=bk.upload(offsets),
    output=y,
)
plan.run(None, bk.empty((plan.workspace_size,), bk.u8), args)
print(bk.download(y))
