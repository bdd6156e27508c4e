// SPDX-License-Identifier: Apache-2.0
// Fused attention on the CPU: the gradients that attention/flash/problem.h declares.
#include "attention/flash/backward_rows_cpu.h"
#include "attention/flash/backward_tiles_cpu.h"
#include "attention/flash/dispatch_cpu.h"

namespace bk {

template <class T>
size_t attention_backward_workspace(const AttentionBackward<T>& p) {
    if (p.forward.batch <= 0 || p.forward.heads <= 0 || p.forward.kv_heads <= 0) return 0;
    return attention_cpu::with_tiles<T>([&](auto tile) { return attention_cpu::backward_tiles_bytes<T, decltype(tile)>(p); });
}

template <class T>
Status attention_backward(const Launch& launch, const AttentionBackward<T>& p) {
    if (p.forward.lengths.page_ids != nullptr) return fail(Status::kUnsupported, "gradients of pages are not computed");
    if (p.forward.batch <= 0 || p.forward.heads <= 0 || p.forward.kv_heads <= 0) return Status::kOk;
    const attention_cpu::BackwardRows<T> rows{p, attention_cpu::seed_of(p.forward.rules.dropout)};
    rows.zero_dbias();
    if (!attention_cpu::with_tiles<T>(
            [&](auto tile) { return attention_cpu::run_backward_tiles<T, decltype(tile)>(launch, p); }))
        rows.run();
    rows.run_rest();
    return Status::kOk;
}

#define BK_ATTENTION(T)                                                             \
    template Status attention_backward(const Launch&, const AttentionBackward<T>&); \
    template size_t attention_backward_workspace(const AttentionBackward<T>&);
BK_ATTENTION(float)
BK_ATTENTION(f16)
BK_ATTENTION(bf16)
BK_ATTENTION(double)
#undef BK_ATTENTION

}  // namespace bk
