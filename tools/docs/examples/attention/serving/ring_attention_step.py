# %% Plans of the parts
import numpy as np

import baracuda as bk

rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((3, 1, 2, 4, 8), np.float32)  # batch, heads, rows, features
o, m, length = bk.empty(64, bk.f32), bk.empty(8, bk.f32), bk.empty(8, bk.f32)
init = bk.RingAttentionInitPlan.select(None, bk.RingAttentionInitDescriptor(o_len=64, ml_len=8, element=bk.f32))
init.run(None, None, bk.RingAttentionInitArgs(o_acc=o, m_acc=m, l_acc=length))
rows = (bk.TensorRef(x.ptr, (1, 2, 4), bk.f32) for x in (m, length))
state = dict(zip(("m_acc", "l_acc"), rows)) | {"o_acc": bk.TensorRef(o.ptr, (1, 2, 4, 8), bk.f32)}
for start in (2, 0):  # two chunks of two keys, in any order
    of = {"q_local": 4, "k_chunk": 2, "d": 8, "scale": 8**-0.5, "is_causal": True, "k_global_base": start}
    step = bk.RingAttentionStepPlan.select(None, bk.RingAttentionStepDescriptor(1, 2, **of, element=bk.f32))
    chunk = (bk.upload(np.ascontiguousarray(x[:, :, start : start + 2])) for x in (k, v))
    step.run(None, None, bk.RingAttentionStepArgs(bk.upload(q), *chunk, **state))
y = bk.empty((1, 2, 4, 8), bk.f32)
final = bk.RingAttentionFinalizePlan.select(None, bk.RingAttentionFinalizeDescriptor(1, 2, 4, 8, element=bk.f32))
final.run(None, None, bk.RingAttentionFinalizeArgs(**state, y=y))
whole = bk.scaled_dot_product_attention(q, k, v, is_causal=True)
print(np.allclose(bk.download(y), whole, atol=1e-6))

# %% Plan of the whole ring
plan = bk.RingAttentionPlan.select(None, bk.RingAttentionDescriptor(1, 2, 4, 4, 8, 8**-0.5, True, element=bk.f32))
workspace = bk.empty(plan.workspace_size, bk.u8)
buffer = bk.upload(np.stack([k, v]))  # of one rank, which sends to no other
plan.run(None, workspace, None, bk.RingAttentionArgs(bk.upload(q), buffer, y))
print(np.allclose(bk.download(y), whole, atol=1e-6))
