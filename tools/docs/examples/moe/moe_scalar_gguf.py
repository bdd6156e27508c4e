# %% Plan
import numpy as np

import baracuda as bk

ids = np.array([[1, 0], [2, 1]], dtype=np.int32)  # experts of two tokens
order, _, expert_of, *_ = bk.moe_sort(ids, 3)
block = np.concatenate([np.array([0.5], np.float16).view(np.uint8), np.arange(32, dtype=np.uint8)])  # of q8_0
descriptor = bk.MoeDescriptor(
    bk.MoeKind.SCALAR_GGUF, 2, 3, 2, d_model=32, d_expert=4, block_format=bk.GgufBlockFormat.Q8_0, element=bk.f32
)
plan = bk.MoePlan.select(None, descriptor)
args = bk.MoeArgs(
    activations=bk.upload(np.ones((2, 32), np.float32)), expert_matrices=bk.upload(np.tile(block, (3, 4, 1))),
    sorted_token_ids=bk.upload(order), flat_expert_ids=bk.upload(expert_of), output=bk.empty((4, 4), bk.f32),
)  # fmt: skip
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.output))
