// SPDX-License-Identifier: Apache-2.0
// Fused attention on the CPU: the forward core that attention/flash/problem.h declares.
#include "attention/flash/dispatch_cpu.h"
#include "attention/flash/forward_rows_cpu.h"
#include "attention/flash/forward_tiles_cpu.h"

namespace bk {

template <class T>
size_t attention_forward_workspace(const AttentionForward<T>& p) {
    if (p.batch <= 0 || p.heads <= 0 || p.kv_heads <= 0) return 0;
    return static_cast<size_t>(thread_count()) *
           attention_cpu::with_tiles<T>([&](auto tile) { return attention_cpu::forward_slot_bytes<T, decltype(tile)>(p); },
                                        p.is_batch_invariant);
}

template <class T>
Status attention_forward(const Launch& launch, const AttentionForward<T>& p) {
    if (p.batch <= 0 || p.heads <= 0 || p.kv_heads <= 0) return Status::kOk;
    const attention_cpu::ForwardRows<T> rows{p, attention_cpu::seed_of(p.rules.dropout)};
    const auto run_tiles = [&](auto tile) { return attention_cpu::run_forward_tiles<T, decltype(tile)>(launch, p); };
    if (attention_cpu::with_tiles<T>(run_tiles, p.is_batch_invariant))
        rows.fill_unowned_rows();
    else
        rows.run();
    return Status::kOk;
}

#define BK_ATTENTION(T)                                                           \
    template Status attention_forward(const Launch&, const AttentionForward<T>&); \
    template size_t attention_forward_workspace(const AttentionForward<T>&);
BK_ATTENTION(float)
BK_ATTENTION(f16)
BK_ATTENTION(bf16)
BK_ATTENTION(double)
#undef BK_ATTENTION

}  // namespace bk
