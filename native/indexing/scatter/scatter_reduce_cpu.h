// SPDX-License-Identifier: Apache-2.0
// With a workspace all 16-bit updates of a target are combined at once. Otherwise in place: excluded cells are reset,
// updates are combined in memory, and means are divided by counts that are recounted for each tile of targets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "indexing/scatter/scatter_reduce.h"

namespace bk {

// Sized for accumulators with a count, which means need.
template <class T>
size_t scatter_reduce_rule_workspace(const ScatterLayout& layout, const ReduceRule&) {
    return scatter_reduce_workspace<RuntimeScatterOp<compute_t<T>>, T>(layout);
}

template <class C, class Body>
Status with_scatter_op(Reduction reduction, const Body& body) {
    switch (reduction) {
        case Reduction::kProd: return body(ScatterProduct<C>{});
        case Reduction::kAmax: return body(ScatterMax<C>{});
        case Reduction::kAmin: return body(ScatterMin<C>{});
        default: return body(ScatterSum<C>{});
    }
}

// Op, whose results the rule finishes.
template <class Op, class C>
struct ScatterOpByRule {
    using Acc = Counted<C>;
    RuntimeScatterOp<C> rule;
    static BK_HD C combine(C a, C b) { return Op::combine(a, b); }
    static BK_HD C identity() { return Op::identity(); }
    BK_HD C finish(C cell, const Acc& all) const { return rule.finish(cell, all); }
};

template <class C>
struct ScatterReset : ScatterOp<ScatterReset<C>, C> {
    C initial;
    explicit ScatterReset(C given) : initial(given) {}
    BK_HD C combine(C, C) const { return initial; }
    BK_HD C identity() const { return initial; }
};

template <class T>
void divide_targets(const ScatterLayout& s, IdArray all_indices, T* out, bool includes_self) {
    using C = compute_t<T>;
    constexpr int64_t kTile = 4096;
    const TargetTiles tiles(s, kTile);
    const Walk<2, uint64_t> fibers(tiles.fibers);
    const Walk<1, uint64_t> shared(tiles.shared);
    const int64_t cells = tiles.shared.numel(), count = tiles.fibers.numel() * tiles.tiles;
    const bool is_dense = tiles.shared.rank == 0 || (tiles.shared.rank == 1 && tiles.shared.stride[0][0] == 1);
    parallel_ranges(count, grain_for((s.n + s.targets) * 8), [&](int64_t begin, int64_t end) {
        int32_t counts[kTile];
        for (int64_t at = begin; at < end; ++at) {
            const auto offset = fibers(static_cast<uint64_t>(at / tiles.tiles));
            const int64_t first = at % tiles.tiles * kTile, size = std::min(kTile, s.targets - first);
            const IdArray index = all_indices + signed_offset(offset.of[0]);
            memset(counts, 0, sizeof(int32_t) * static_cast<size_t>(size));
            for (int64_t j = 0; j < s.n; ++j)
                if (const int64_t i = index[j * s.step[1]]; s.keeps(i) && i >= first && i < first + size) ++counts[i - first];
            for (int64_t t = 0; t < size; ++t) {
                const int64_t divisor = int64_t{counts[t]} + includes_self;
                if (counts[t] == 0 || divisor == 1) continue;
                T* const row = out + signed_offset(offset.of[1]) + (first + t) * s.step[2];
                const auto divide = [&](T& cell) { cell = narrow<T>(RuntimeScatterOp<C>::mean_of(widen(cell), divisor)); };
                if (is_dense)
                    for (int64_t c = 0; c < cells; ++c) divide(row[c]);
                else
                    for (int64_t c = 0; c < cells; ++c) divide(row[signed_offset(shared(static_cast<uint64_t>(c)).of[0])]);
            }
        }
    });
}

template <class T>
Status scatter_reduce_rule(const Launch& launch, const ScatterLayout& layout, const ReduceRule& rule, const T* updates,
                           IdArray index, T* out) {
    using C = compute_t<T>;
    const bool has_workspace = workspace_holds(launch, scatter_reduce_rule_workspace<T>(layout, rule));
    return with_scatter_op<C>(rule.reduction(), [&](auto op) {
        using Op = decltype(op);
        if constexpr (!std::is_same_v<T, C>)
            if (has_workspace)
                return scatter_grouped(ScatterOpByRule<Op, C>{{rule.reduction(), rule.includes_self(), false}}, launch, layout,
                                       updates, index, out);
        if (!rule.includes_self()) BK_TRY(scatter_in_place(ScatterReset<C>(op.identity()), layout, updates, index, out));
        BK_TRY(scatter_in_place(op, layout, updates, index, out));
        if (rule.is_mean()) divide_targets(layout, index, out, rule.includes_self());
        return Status::kOk;
    });
}

}  // namespace bk
