# %% Plan
import numpy as np

import baracuda as bk

v, s = bk.upload(np.array([[[1, 1]]], np.float32)), bk.upload(np.array([[3]], np.float32))  # s has base 2
v_other, s_other = bk.upload(np.array([[[4, 4]]], np.float32)), bk.upload(np.array([[4]], np.float32))
of = bk.CascadeAttentionDescriptor(seq_len=1, num_heads=1, head_dim=2, element=bk.f32)
plan = bk.CascadeAttentionPlan.select(None, of)
plan.run(None, None, bk.CascadeAttentionArgs(v=v, s=s, v_other=v_other, s_other=s_other))
print(bk.download(v), (2 ** bk.download(s)).round(3))  # (8 * 1 + 16 * 4) / 24
