// SPDX-License-Identifier: Apache-2.0
// CPU adjoint of a gather, row by row of y, in tiles: single summands are copied, others added to a tile of compute_t<T>.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/gather_adjoint.h"

namespace bk {

constexpr int64_t kAdjointTile = 512;

template <class T>
struct AdjointRows {
    using C = compute_t<T>;
    GatherAdjoint sum;
    AdjointMap<uint64_t> map[kMaxRank];
    const T* x;
    T* y;

    // Computes indices [first, end) of row `row`, at most kAdjointTile of them.
    void tile(int64_t row, int64_t first, int64_t end) const {
        const int last = sum.rank - 1;
        AdjointSummands summands[kMaxRank];
        int64_t combinations = 1, to = 0;
        for (int d = last; d-- > 0; row /= sum.axis[d].extent) {
            const int64_t c = row % sum.axis[d].extent;
            summands[d] = map[d](static_cast<uint64_t>(c));
            combinations *= summands[d].total();
            to += c * sum.axis[d].stride_y;
        }
        const int64_t bulk = std::clamp(map[last].bulk, first, end), bulk_end = std::clamp(map[last].bulk_end, bulk, end);
        if (combinations == 1) {
            const T* const from = x + offset(summands, 0);
            if (bulk < bulk_end) copy_bulk(from, y + to, bulk, bulk_end);
            add_tile(summands, 1, first, bulk, y + to);
            add_tile(summands, 1, bulk_end, end, y + to);
            return;
        }
        add_tile(summands, combinations, first, end, y + to);
    }

private:
    // Offset of combination k of the outer axes' summands.
    int64_t offset(const AdjointSummands* summands, int64_t k) const {
        int64_t at = 0;
        for (int d = sum.rank - 1; d-- > 0;) {
            const int64_t each = summands[d].total();
            at += summands[d].offset(each == 1 ? 0 : k % each);
            k = each == 1 ? k : k / each;
        }
        return at;
    }

    void copy_bulk(const T* from, T* to, int64_t first, int64_t end) const {
        const AdjointMap<uint64_t>& inner = map[sum.rank - 1];
        const int64_t step_x = inner.stride, step_y = sum.axis[sum.rank - 1].stride_y;
        const T* const source = from + (first + inner.low) * step_x;
        T* const target = to + first * step_y;
        if (step_x == 1 && step_y == 1 && end - first > 8)
            memcpy(target, source, static_cast<size_t>(end - first) * sizeof(T));
        else
            for (int64_t k = 0; k < end - first; ++k) target[k * step_y] = source[k * step_x];
    }

    void add_tile(const AdjointSummands* summands, int64_t combinations, int64_t first, int64_t end, T* to) const {
        if (first >= end) return;
        C total[kAdjointTile];
        for (int64_t k = 0; k < end - first; ++k) total[k] = -C(0);  // keeps the sign of zeros
        for (int64_t k = 0; k < combinations; ++k) add_row(x + offset(summands, k), first, end, total);
        const AdjointMap<uint64_t>& inner = map[sum.rank - 1];
        const int64_t step = sum.axis[sum.rank - 1].stride_y;
        for (int64_t k = 0; k < end - first; ++k)
            if (total[k] == 0 && std::signbit(total[k]) &&
                (combinations == 0 || inner(static_cast<uint64_t>(first + k)).total() == 0))
                total[k] = 0;
        if (step == 1) return store(total, to + first, end - first);
        for (int64_t k = 0; k < end - first; ++k) to[(first + k) * step] = narrow<T>(total[k]);
    }

    static void store(const C* total, T* to, int64_t count) {
        if constexpr (std::is_same_v<T, f16>) {
            narrow_span(to, total, count);
        } else {
            BK_VECTOR_LOOP
            for (int64_t k = 0; k < count; ++k) to[k] = narrow<T>(total[k]);
        }
    }

    void add_row(const T* from, int64_t first, int64_t end, C* total) const {
        const AdjointMap<uint64_t>& inner = map[sum.rank - 1];
        if (inner.map_mode == AdjointMode::kWindows) return add_windows(from, first, end, total);
        const int64_t bulk = std::clamp(inner.bulk, first, end), bulk_end = std::clamp(inner.bulk_end, bulk, end);
        for (int64_t k = first; k < bulk; ++k) add_summands(from, k, &total[k - first]);
        if (bulk < bulk_end)
            add_span(from + (bulk + inner.low) * inner.stride, inner.stride, bulk_end - bulk, total + (bulk - first));
        for (int64_t k = bulk_end; k < end; ++k) add_summands(from, k, &total[k - first]);
    }

    void add_windows(const T* from, int64_t first, int64_t end, C* total) const {
        const GatherAxis& axis = sum.axis[sum.rank - 1];
        if (axis.window < axis.source) return add_elements(from, first, end, total);
        const int64_t reach = (axis.window - 1) * axis.dilation + 1, position = first + axis.low;
        const int64_t begin = position < reach ? 0 : (position - reach) / axis.step + 1;
        for (int64_t w = begin; w < axis.source && w * axis.step - axis.low < end; ++w) {
            const int64_t from_here = w * axis.step - axis.low, before = std::max<int64_t>(first - from_here, 0);
            const int64_t low = ceil_div(before, axis.dilation);  // the elements [low, high) of the window
            const int64_t high = std::min(axis.window, ceil_div(end - from_here, axis.dilation));
            const T* const source = from + w * axis.stride_window + low * axis.stride_x;
            C* const target = total + (from_here + low * axis.dilation - first);
            if (axis.dilation == 1)
                add_span(source, axis.stride_x, high - low, target);
            else
                for (int64_t j = 0; j < high - low; ++j) target[j * axis.dilation] += widen(source[j * axis.stride_x]);
        }
    }

    // Adds element j of all windows, the last j first, so that an index receives its windows in ascending order.
    void add_elements(const T* from, int64_t first, int64_t end, C* total) const {
        const GatherAxis& axis = sum.axis[sum.rank - 1];
        for (int64_t j = axis.window; j-- > 0;) {
            const int64_t position = j * axis.dilation - axis.low;
            const int64_t low = first > position ? ceil_div(first - position, axis.step) : 0;
            const int64_t high = end > position ? std::min(axis.source, ceil_div(end - position, axis.step)) : 0;
            const T* const source = from + j * axis.stride_x + low * axis.stride_window;
            C* const target = total + (low * axis.step + position - first);
            if (axis.step == 1)
                add_span(source, axis.stride_window, high - low, target);
            else
                for (int64_t w = 0; w < high - low; ++w) target[w * axis.step] += widen(source[w * axis.stride_window]);
        }
    }

    void add_summands(const T* from, int64_t index, C* total) const {
        const AdjointSummands summands = map[sum.rank - 1](static_cast<uint64_t>(index));
        for (int64_t k = 0; k < summands.count; ++k) *total += widen(from[summands.first + k * summands.step]);
        for (int64_t k = 0; k < summands.more; ++k) *total += widen(from[summands.second + k * summands.step]);
    }

    static void add_span(const T* from, int64_t step, int64_t count, C* total) {
        if (step == 1 && std::is_same_v<T, f16> && count >= 16) {
            float wide[kAdjointTile];
            widen_span(wide, reinterpret_cast<const f16*>(from), count);
            BK_VECTOR_LOOP
            for (int64_t k = 0; k < count; ++k) total[k] += static_cast<C>(wide[k]);
        } else if (step == 1) {
            BK_VECTOR_LOOP
            for (int64_t k = 0; k < count; ++k) total[k] += widen(from[k]);
        } else {
            for (int64_t k = 0; k < count; ++k) total[k] += widen(from[k * step]);
        }
    }
};

template <class T>
Status add_adjoint(const Launch&, const GatherAdjoint& given, const T* x, T* y) {
    AdjointRows<T> rows{plan_adjoint(given), {}, x, y};
    const GatherAdjoint& sum = rows.sum;
    int64_t count = 1;
    for (int d = 0; d < sum.rank; ++d) {
        rows.map[d] = AdjointMap<uint64_t>(sum.axis[d]);
        count *= d + 1 < sum.rank ? sum.axis[d].extent : 1;
    }
    const int64_t length = sum.axis[sum.rank - 1].extent, cuts = ceil_div(length, kAdjointTile);
    const int64_t bytes = 2 * std::min(length, kAdjointTile) * static_cast<int64_t>(sizeof(T));
    parallel_ranges(count * cuts, grain_for(bytes), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
            rows.tile(k / cuts, k % cuts * kAdjointTile, std::min((k % cuts + 1) * kAdjointTile, length));
    });
    return Status::kOk;
}

}  // namespace bk
