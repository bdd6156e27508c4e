// SPDX-License-Identifier: Apache-2.0
// Order statistics on the CPU, rows over threads.
#include <cstdint>

#include "core/topk/rank_rule.h"
#include "core/topk/ranked_cpu.h"

namespace bk {

namespace {

template <class Bits>
int64_t find_rank(const InputRow<Bits>& row, int64_t rank) {
    const RankThreshold<Bits> threshold = find_threshold(row, rank + 1);
    return index_of_tie(row, threshold.key, threshold.ties);
}

template <class Bits>
int64_t nans_of(const InputRow<Bits>& row) {
    RankWord<Bits> keys[kRankTile];
    int64_t nans = 0;
    for (int64_t first = 0; first < row.length; first += kRankTile)
        nans += count_equal<RankWord<Bits>>(keys, row.load(first, keys), KeyOrder<Bits>::kAll);
    return nans;
}

template <class Bits>
void rank_row(const RankRows<Bits>& rows, const InputRow<Bits>& row, int64_t value_at, int64_t at,
              const RankOutputs<Bits>& outputs) {
    const bool may_have_nans = counts_nans(rows.rule.kind) && rows.order.kind == KeyKind::kFloat;
    const int64_t nans = may_have_nans ? nans_of(row) : 0;
    for (int64_t query = 0; query < rows.rule.queries; ++query) {
        RankChoice choice = choose_ranks(rows.rule, row.length, nans, rows.rule.q == nullptr ? 0.0 : rows.rule.q[query]);
        const bool is_pair = choice.upper != choice.lower;
        if (choice.lower >= 0) {
            const int64_t upper = choice.upper;
            choice.lower = find_rank(row, choice.lower);
            choice.upper = is_pair ? find_rank(row, upper) : choice.lower;
        }
        outputs.set(value_at + query * rows.query_step, at + query * rows.query_step, row.x, row.step, choice);
    }
}

}  // namespace

template <class Bits>
Status select_ranks(const Launch&, const RankRows<Bits>& rows, const Bits* x, const RankOutputs<Bits>& outputs) {
    split_ranges(rows.rows.numel(), grain_for(rows.length * 32), [&](int64_t begin, int64_t end) {
        for_rows(rows, rows.order, x, begin, end, [&](const Offsets<3, uint64_t>& at, const InputRow<Bits>& row) {
            rank_row(rows, row, static_cast<int64_t>(at.of[1]), static_cast<int64_t>(at.of[2]), outputs);
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
