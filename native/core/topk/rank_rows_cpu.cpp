// SPDX-License-Identifier: Apache-2.0
// Order statistics on the CPU, rows over threads: a quickselect of short rows, a radix select of long ones.
#include <algorithm>
#include <cstdint>

#include "core/topk/rank_rule.h"
#include "core/topk/ranked_cpu.h"

namespace bk {

namespace {

constexpr int64_t kShortRow = 256;  // on the stack

template <class Bits, class Key>
BK_HD int64_t find_rank(const InputRow<Bits>& row, const Key& key_of, int64_t rank) {
    if (row.length <= kShortRow) {
        WideRank ranks[kShortRow];
        for (int64_t i = 0; i < row.length; ++i) ranks[i] = WideRank::of(key_of(row.x[i * row.step]), i);
        std::nth_element(ranks, ranks + rank, ranks + row.length);
        return ranks[rank].index();
    }
    const RankThreshold<Bits> threshold = find_threshold(row, key_of, rank + 1);
    int64_t ties = threshold.ties, index = 0;
    for (;; ++index)
        if (key_of(row.x[index * row.step]) == threshold.key && --ties == 0) return index;
}

template <class Bits, class Key>
BK_HD void rank_row(const RankRows<Bits>& rows, const InputRow<Bits>& row, const Key& key_of, int64_t value_at, int64_t at,
                    const RankOutputs<Bits>& outputs) {
    int64_t nans = 0;
    if (counts_nans(rows.rule.kind) && rows.order.kind == KeyKind::kFloat)
        for (int64_t i = 0; i < row.length; ++i) nans += key_of(row.x[i * row.step]) == KeyOrder<Bits>::kAll;
    for (int64_t query = 0; query < rows.rule.queries; ++query) {
        RankChoice choice = choose_ranks(rows.rule, row.length, nans, rows.rule.q == nullptr ? 0.0 : rows.rule.q[query]);
        const bool is_pair = choice.upper != choice.lower;
        if (choice.lower >= 0) {
            const int64_t upper = choice.upper;
            choice.lower = find_rank(row, key_of, choice.lower);
            choice.upper = is_pair ? find_rank(row, key_of, upper) : choice.lower;
        }
        outputs.set(value_at + query * rows.query_step, at + query * rows.query_step, row.x, row.step, choice);
    }
}

}  // namespace

template <class Bits>
Status select_ranks(const Launch&, const RankRows<Bits>& rows, const Bits* x, const RankOutputs<Bits>& outputs) {
    const Walk<3, uint64_t> walk(collapse(rows.rows));
    with_key_kind(rows.order, [&](const auto& key_of) {
        parallel_ranges(rows.rows.numel(), grain_for(rows.length * 32), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
                const Offsets<3, uint64_t> at = walk(static_cast<uint64_t>(r));
                const InputRow<Bits> row{x + static_cast<int64_t>(at.of[0]), rows.length, rows.step[0]};
                rank_row(rows, row, key_of, static_cast<int64_t>(at.of[1]), static_cast<int64_t>(at.of[2]), outputs);
            }
        });
    });
    return Status::kOk;
}

#define BK_RANKS(Bits) \
    template Status select_ranks<Bits>(const Launch&, const RankRows<Bits>&, const Bits*, const RankOutputs<Bits>&);
BK_RANKS(uint8_t)
BK_RANKS(uint16_t)
BK_RANKS(uint32_t)
BK_RANKS(uint64_t)

}  // namespace bk
