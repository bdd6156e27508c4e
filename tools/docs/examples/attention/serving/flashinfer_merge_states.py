# %% Function
import numpy as np

import baracuda as bk

values = np.array([[[[1, 1]], [[4, 4]]]], np.float32)  # one row, two states, one head
logs = np.array([[[3], [4]]], np.float32)  # of base 2: sums of exponentials of 8 and 16
print(*bk.merge_attention_sets(values, logs))

# %% Plan
of = bk.CascadeMergeStatesDescriptor(num_index_sets=2, seq_len=1, num_heads=1, head_dim=2, element=bk.f32)
plan = bk.CascadeMergeStatesPlan.select(None, of)
merged, log = bk.empty((1, 1, 2), bk.f32), bk.empty((1, 1), bk.f32)
args = bk.CascadeMergeStatesArgs(v=bk.upload(values), s=bk.upload(logs), v_merged=merged, s_merged=log)
plan.run(None, None, args)
print(bk.download(merged), (2 ** bk.download(log)).round(3))

# %% Plan in place
v, s = bk.upload(np.array([[[1, 1]]], np.float32)), bk.upload(np.array([[3]], np.float32))  # s has base 2
v_other, s_other = bk.upload(np.array([[[4, 4]]], np.float32)), bk.upload(np.array([[4]], np.float32))
of = bk.CascadeAttentionDescriptor(seq_len=1, num_heads=1, head_dim=2, element=bk.f32)
plan = bk.CascadeAttentionPlan.select(None, of)
plan.run(None, None, bk.CascadeAttentionArgs(v=v, s=s, v_other=v_other, s_other=s_other))
print(bk.download(v), (2 ** bk.download(s)).round(3))  # (8 * 1 + 16 * 4) / 24
