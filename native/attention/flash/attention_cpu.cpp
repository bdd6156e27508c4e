// SPDX-License-Identifier: Apache-2.0
// Fused attention on the CPU: the cores that attention/flash/problem.h declares.
#include "attention/flash/backward_rows_cpu.h"
#include "attention/flash/forward_rows_cpu.h"

namespace bk {

template <class T>
size_t attention_forward_workspace(const AttentionForward<T>&) {
    return 0;
}

template <class T>
Status attention_forward(const Launch&, const AttentionForward<T>& p) {
    if (p.batch <= 0 || p.heads <= 0 || p.kv_heads <= 0) return Status::kOk;
    attention_cpu::ForwardRows<T>{p, attention_cpu::seed_of(p.rules.dropout)}.run();
    return Status::kOk;
}

template <class T>
size_t attention_backward_workspace(const AttentionBackward<T>&) {
    return 0;
}

template <class T>
Status attention_backward(const Launch&, const AttentionBackward<T>& p) {
    if (p.forward.lengths.page_ids != nullptr) return fail(Status::kUnsupported, "gradients of pages are not computed");
    if (p.forward.batch <= 0 || p.forward.heads <= 0 || p.forward.kv_heads <= 0) return Status::kOk;
    attention_cpu::BackwardRows<T>{p, attention_cpu::seed_of(p.forward.rules.dropout)}.run();
    return Status::kOk;
}

#define BK_ATTENTION(T)                                                             \
    template Status attention_forward(const Launch&, const AttentionForward<T>&);   \
    template size_t attention_forward_workspace(const AttentionForward<T>&);        \
    template Status attention_backward(const Launch&, const AttentionBackward<T>&); \
    template size_t attention_backward_workspace(const AttentionBackward<T>&);
BK_ATTENTION(float)
BK_ATTENTION(f16)
BK_ATTENTION(bf16)
BK_ATTENTION(double)
#undef BK_ATTENTION

}  // namespace bk
