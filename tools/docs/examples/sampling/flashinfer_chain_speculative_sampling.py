# %% Plan
import numpy as np

import baracuda as bk

draft = np.array([[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]], dtype=np.float32)
target = np.array([[[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6]]], dtype=np.float32)
tokens = np.array([[0, 1]], dtype=np.int32)
found = bk.empty((1, 3), bk.i32)
passed, emitted = (bk.upload(np.zeros(1, np.int32)) for _ in range(2))  # counts are added to
plan = bk.SpeculativeSamplingPlan.select(None, bk.SpeculativeSamplingDescriptor(1, 2, 3, seed_val=7, element=bk.f32))
args = bk.SpeculativeSamplingArgs(
    draft_probs=bk.upload(draft), draft_token_ids=bk.upload(tokens), target_probs=bk.upload(target),
    output_token_ids=found, output_accepted_token_num=passed, output_emitted_draft_token_num=emitted,
)  # fmt: skip
plan.run(None, bk.workspace(plan), args)
print(bk.download(found), bk.download(passed), bk.download(emitted))
