# %% Plan
import numpy as np

import baracuda as bk

ids = np.array([[1, 0], [2, 1]], dtype=np.int32)  # experts of two tokens
order, _, expert_of, *_ = bk.moe_sort(ids, 3)
descriptor = bk.MoeDescriptor(bk.MoeKind.WMMA, 2, 3, 2, d_model=8, d_expert=4, element=bk.f16)
plan = bk.MoePlan.select(None, descriptor)
args = bk.MoeArgs(
    activations=bk.upload(np.ones((2, 8), np.float16)), expert_matrices=bk.upload(np.ones((3, 4, 8), np.float16)),
    sorted_token_ids=bk.upload(order), flat_expert_ids=bk.upload(expert_of), output=bk.empty((4, 4), bk.f16),
    expert_counts_scratch=bk.empty((3,), bk.i32), expert_offsets_scratch=bk.empty((4,), bk.i32),
)  # fmt: skip
plan.run(None, bk.workspace(plan), args)
print(bk.download(args.output))
