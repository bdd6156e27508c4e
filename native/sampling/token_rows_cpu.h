// SPDX-License-Identifier: Apache-2.0
// Threads share the rows; sums are exact, so that results equal those of a GPU.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch_cpu.h"
#include "sampling/token_rows.h"

namespace bk::sampling {

template <class T>
class CpuRow {
public:
    CpuRow(const TokenRows<T>& rows, int64_t row) : rows_(rows), row_(row), x_(rows.x + row * rows.vocab) {}

    void run() {
        filter_ = find_filter();
        Threshold limit{0, 0};
        if (!filter_.is_refused) limit = find_threshold();
        rows_.output == Output::kToken ? draw(limit) : write(limit);
    }

private:
    RowFilter find_filter() const {
        int32_t refused = 0;
        float largest = -bit_cast<float>(kInfinityBits);
        for (int64_t i = 0; i < rows_.vocab; ++i) {
            const float x = widen(x_[i]);
            refused |= static_cast<int32_t>(is_refused(x));
            largest = x > largest ? x : largest;
        }
        return filter_of(rows_, row_, largest, refused != 0);
    }

    // Runs visit(key, amount) over the tokens above `floor`; the amount is 1 or the weight.
    template <bool kByWeight, class Visit>
    void for_each(uint32_t floor, const Selection& s, const Visit& visit) const {
        for (int64_t i = 0; i < rows_.vocab; ++i) {
            const float x = widen(x_[i]);
            const uint32_t key = filter_.key(x);
            if (key > floor && s.holds(key)) visit(key, kByWeight ? filter_.weights.of(x) : 1);
        }
    }

    template <bool kByWeight>
    Selection select(uint32_t floor, uint64_t extra, uint64_t wanted) const {
        Selection s{0, 0, 0, wanted, 0, false};
        do {
            uint64_t sums[kBins] = {};
            for_each<kByWeight>(floor, s, [&](uint32_t key, uint64_t amount) { sums[s.bin(key)] += amount; });
            if (kByWeight && s.digit == 0) {
                uint64_t total = extra;
                for (const uint64_t sum : sums) total += sum;
                s.wanted = filter_.wanted(total);
            }
            uint64_t before = 0;
            int bin = kBins - 1;
            while (bin >= 0 && s.above + before + sums[bin] < s.wanted) before += sums[bin--];
            if (bin < 0) {
                s.above += before;
                return s;
            }
            s.take(static_cast<uint32_t>(bin), before, sums[bin]);
        } while (!s.is_settled());
        s.is_found = true;
        return s;
    }

    Threshold find_threshold() {
        Threshold limit{0, 0};
        if (filter_.rule == Rule::kTypical) find_mean();
        if (filter_.top_k == 1 && !filter_.admits_all_ties()) return {key_of(filter_.weights.largest), 1};
        if (filter_.top_k > 0) {
            const Selection s = select<false>(0, 0, static_cast<uint64_t>(filter_.top_k));
            limit = threshold_of(s, filter_.admits_all_ties(), 1);
        }
        if (filter_.top_p >= 1.0f) return limit;
        const bool is_restricted = filter_.rule == Rule::kSequential;
        const uint64_t tie = limit.ties > 0 ? filter_.weights.of(value_of(limit.key)) : 0;
        const Selection s = select<true>(is_restricted ? limit.key : 0, tie * limit.ties, 0);
        return narrowed(filter_, limit, s, tie);
    }

    void find_mean() {
        uint64_t total = 0, moments = 0;
        for (int64_t i = 0; i < rows_.vocab; ++i) {
            const float x = widen(x_[i]);
            total += filter_.weights.of(x);
            moments += filter_.moment(x);
        }
        filter_.mean = RowFilter::mean_of(moments, total);
    }

    // Runs visit(i, x, weight) over the admitted tokens in index order until it returns true.
    template <class Visit>
    void for_each_admitted(const Threshold& limit, const Visit& visit) const {
        const uint64_t least = filter_.least_weight();
        uint32_t ties = limit.ties;
        for (int64_t i = 0; i < rows_.vocab; ++i) {
            const float x = widen(x_[i]);
            const uint32_t key = filter_.key(x);
            if (key < limit.key || (key == limit.key && ties == 0)) continue;
            if (key == limit.key) --ties;
            const uint64_t weight = filter_.weights.of(x);
            if (weight >= least && visit(i, x, weight)) return;
        }
    }
    uint64_t admitted_weight(const Threshold& limit) const {
        uint64_t total = 0;
        for_each_admitted(limit, [&](int64_t, float, uint64_t weight) {
            total += weight;
            return false;
        });
        return total;
    }

    void draw(const Threshold& limit) const {
        const uint64_t total = filter_.is_refused ? 0 : admitted_weight(limit);
        int32_t token = 0;
        if (total > 0) {
            uint64_t left = rows_.seeds.of(row_).below(total, 0);
            for_each_admitted(limit, [&](int64_t i, float, uint64_t weight) {
                if (left < weight) token = static_cast<int32_t>(i);
                const bool is_last = left < weight;
                left -= weight;
                return is_last;
            });
        }
        rows_.token[row_] = token;
        if (rows_.valid != nullptr) rows_.valid[row_] = total > 0;
    }

    void write(const Threshold& limit) const {
        T* const y = rows_.y + row_ * rows_.vocab;
        const uint64_t total = filter_.is_refused ? 0 : admitted_weight(limit);
        if (rows_.valid != nullptr) rows_.valid[row_] = total > 0;
        const FilteredValue value = filtered_value(rows_.output, filter_.weights, total);
        const T others = narrow<T>(total > 0 ? value.of_others() : bit_cast<float>(0x7fc00000u));
        int64_t next = 0;
        if (total > 0)
            for_each_admitted(limit, [&](int64_t i, float x, uint64_t weight) {
                for (; next < i; ++next) y[next] = others;
                y[next++] = narrow<T>(value.of(x, weight));
                return false;
            });
        for (; next < rows_.vocab; ++next) y[next] = others;
    }

    const TokenRows<T>& rows_;
    int64_t row_;
    const T* x_;
    RowFilter filter_;
};

template <class T>
Status run_token_rows(const Launch&, const TokenRows<T>& rows) {
    parallel_chunks(rows.batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) CpuRow<T>(rows, row).run();
    });
    return Status::kOk;
}

}  // namespace bk::sampling
