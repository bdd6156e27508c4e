// SPDX-License-Identifier: Apache-2.0
// Adjoint of a gather that copies an element to several positions: y[c] is the sum of all x[p] that a map of each axis
// sends to c. It is the backward pass of pad and unfold (col2im).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/layout/layout.h"
#include "core/math/fastdiv.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// Maps from an index p of x to one of y: p - low, mapped into y by the pad modes reflect, replicate and circular
// (PadMode of core/copy/copies.h), dropped by kShift if outside. kWindows maps element j of window w to w * step +
// j * dilation - low, low >= 0, dropped if outside.
enum class AdjointMode { kShift, kReflect, kReplicate, kCircular, kWindows };

struct GatherAxis {
    AdjointMode map_mode = AdjointMode::kShift;
    int64_t extent = 1, source = 1;  // of y; and of x, or the number of windows
    int64_t low = 0;
    int64_t stride_y = 0, stride_x = 0;  // with kWindows, stride_x is that of j
    int64_t window = 1, step = 1, dilation = 1, stride_window = 0;

    bool is_plain() const { return map_mode == AdjointMode::kShift && low == 0 && extent == source; }
};

struct GatherAdjoint {
    int rank = 0;
    GatherAxis axis[kMaxRank];
};

// Whether every element of y receives one element of x, axis by axis, and the layout of that copy. Adjacent windows
// become two axes on a CPU, fast if both are long; on an H100 patches of 16 x 16 take 1.3 to 1.5 times as long.
BK_COLD inline bool is_copy(const GatherAdjoint& sum, CopyLayout* layout) {
    constexpr int64_t kLong = 8;
    for (int d = 0; d < sum.rank; ++d) {
        const GatherAxis& axis = sum.axis[d];
        const bool is_cut = axis.map_mode == AdjointMode::kWindows && axis.low == 0 && axis.dilation == 1 &&
                            axis.step == axis.window && axis.source * axis.window == axis.extent && axis.source >= kLong &&
                            axis.window >= kLong && !BK_CUDA;
        if (!is_cut && !axis.is_plain()) return false;
        if (is_cut) layout->append(axis.source, {axis.stride_y * axis.window, axis.stride_window});
        layout->append(is_cut ? axis.window : axis.extent, {axis.stride_y, axis.stride_x});
    }
    return true;
}

// Requires a sum that is not a copy.
template <class T>
Status add_adjoint(const Launch& launch, const GatherAdjoint& sum, const T* x, T* y);

// Requires a y that is not empty. Elements that receive none are 0, those that receive a single one are that, bit for
// bit; others are summed in compute_t<T>, in an order that follows from the axes.
template <class T>
Status gather_adjoint(const Launch& launch, const GatherAdjoint& sum, const T* x, T* y) {
    CopyLayout layout;
    return is_copy(sum, &layout) ? copy_strided(launch, layout, sizeof(T), x, y) : add_adjoint(launch, sum, x, y);
}

// Elements of x along an axis that map to one index, at first + k * step, k < count, and second + k * step, k < more.
struct AdjointSummands {
    int64_t first = 0, count = 1, second = 0, more = 0, step = 0;

    BK_HD int64_t total() const { return count + more; }
    BK_HD int64_t offset(int64_t k) const { return k < count ? first + k * step : second + (k - count) * step; }
};

// Inverse of `number` modulo `modulus`, which are coprime (Euclid).
inline int64_t inverse_of(int64_t number, int64_t modulus) {
    int64_t left = modulus, right = number, of_left = 0, of_right = 1;
    while (right > 0) {
        const int64_t quotient = left / right;
        left = std::exchange(right, left - quotient * right);
        of_left = std::exchange(of_right, of_left - quotient * of_right);
    }
    return of_left < 0 ? of_left + modulus : of_left % modulus;
}

// Index is unsigned; period + phase + extent and x's extent fit its signed form.
template <class Index>
struct AdjointMap {
    AdjointMode map_mode = AdjointMode::kShift;
    FastDiv<Index> period;
    Index phase = 0, reach = 1;  // from the first element of a window to behind its last one
    int64_t extent = 1, source = 1, low = 0;
    Index dilation = 1, common = 1, apart = 1, inverse = 0;  // see dilated()
    int64_t stride_window = 0;
    int64_t stride = 0, step = 0;
    int64_t bulk = 0, bulk_end = 0;  // indices [bulk, bulk_end) have one summand, (index + low) * stride

    AdjointMap() = default;
    explicit AdjointMap(const GatherAxis& axis)
        : map_mode(axis.map_mode),
          reach(static_cast<Index>((axis.window - 1) * axis.dilation + 1)),
          extent(axis.extent),
          source(axis.source),
          low(axis.low),
          dilation(static_cast<Index>(axis.dilation)),
          stride_window(axis.stride_window),
          stride(axis.stride_x) {
        int64_t every = 1;
        if (map_mode == AdjointMode::kReflect && extent == 1) map_mode = AdjointMode::kCircular;
        if (map_mode == AdjointMode::kReflect) every = 2 * (extent - 1);
        if (map_mode == AdjointMode::kCircular) every = extent;
        if (map_mode == AdjointMode::kWindows) every = axis.step;
        step = every * stride;
        if (map_mode == AdjointMode::kWindows) {
            const int64_t both = std::gcd(axis.step, axis.dilation), left = axis.dilation / both, ahead = axis.step / both;
            common = static_cast<Index>(both), apart = static_cast<Index>(left);
            inverse = static_cast<Index>(inverse_of(ahead % left, left));
            step = left * axis.stride_window - ahead * stride;
        }
        period = FastDiv<Index>(every);
        phase = static_cast<Index>((low % every + every) % every);
        bulk = std::max<int64_t>(0, -low), bulk_end = std::min(extent, source - low);
        if (map_mode == AdjointMode::kReflect) {
            bulk = std::max({bulk, low + 1, source - low - every});
            bulk_end = std::min({bulk_end, every - low, low + every - source + 1});
        } else if (map_mode == AdjointMode::kReplicate) {
            bulk = std::max<int64_t>(bulk, 1), bulk_end = std::min(bulk_end, extent - 1);
        } else if (map_mode == AdjointMode::kCircular) {
            bulk = std::max(bulk, source - low - every), bulk_end = std::min(bulk_end, every - low);
        } else if (map_mode == AdjointMode::kWindows) {
            bulk_end = 0;
        }
        bulk_end = std::max(bulk_end, bulk);
    }

    BK_HD AdjointSummands operator()(Index i) const {
        const int64_t index = static_cast<int64_t>(i), at = index + low;
        if (map_mode == AdjointMode::kShift) return {at * stride, at >= 0 && at < source ? 1 : 0};
        if (map_mode == AdjointMode::kReplicate) {
            const int64_t from = index == 0 || at < 0 ? 0 : at, until = index + 1 == extent || at >= source ? source - 1 : at;
            return {from * stride, until < from ? 0 : until - from + 1, 0, 0, stride};
        }
        if (map_mode == AdjointMode::kWindows) {
            const Index position = i + static_cast<Index>(low);
            const WindowRange windows = windows_around(position);
            if (dilation > 1) return dilated(position, windows.from, windows.until);
            return {at * stride + windows.from * step, windows.count(), 0, 0, step};
        }
        const Index a = period(i + phase).remainder;
        AdjointSummands summands{static_cast<int64_t>(a) * stride, count_from(a), 0, 0, step};
        if (map_mode == AdjointMode::kReflect && i != 0 && index + 1 != extent) {
            const Index b = period(period.divisor() - i + phase).remainder;
            summands.second = static_cast<int64_t>(b) * stride, summands.more = count_from(b);
        }
        return summands;
    }

    // 1 if the indices i, ..., i + more have equally many summands, at least one each, and those of an index follow those
    // of the one before in memory; -1 if they precede them; else 0.
    BK_HD int run(Index i, Index more) const {
        int64_t apart_in_x = stride;
        if (map_mode == AdjointMode::kWindows) {
            const WindowRange first = windows_around(i + static_cast<Index>(low));
            const WindowRange last = windows_around(i + more + static_cast<Index>(low));
            if (dilation > 1 || first.count() == 0 || first.count() != last.count()) return 0;
            // From index to index the range moves by one window or not at all.
            if (last.from - first.from == static_cast<int64_t>(more))
                apart_in_x += step;
            else if (last.from != first.from)
                return 0;
        } else if (static_cast<int64_t>(i) < bulk || static_cast<int64_t>(i + more) >= bulk_end) {
            return 0;
        }
        return apart_in_x == 1 ? 1 : apart_in_x == -1 ? -1 : 0;
    }

private:
    struct WindowRange {
        int64_t from, until;
        BK_HD int64_t count() const { return until < from ? 0 : until - from; }
    };
    // Windows whose first to last elements span `position`, which counts from the start of the padding.
    BK_HD WindowRange windows_around(Index position) const {
        const int64_t last = static_cast<int64_t>(period(position).quotient);
        return {position < reach ? 0 : static_cast<int64_t>(period(position - reach).quotient) + 1,
                last < source ? last + 1 : source};
    }
    // Summands of the windows [from, until), which span `position`, that contain it: position - w * step is a multiple of
    // the dilation, so w modulo apart = dilation / common is position / common over step / common.
    BK_HD AdjointSummands dilated(Index position, int64_t from, int64_t until) const {
        const Index wanted = position / common % apart * inverse % apart, first = static_cast<Index>(from) % apart;
        from += static_cast<int64_t>(wanted < first ? wanted + apart - first : wanted - first);
        if (position % common != 0 || until <= from) return {0, 0};
        const Index element = (position - static_cast<Index>(from) * period.divisor()) / dilation;
        const int64_t count = static_cast<int64_t>(static_cast<Index>(until - from - 1) / apart) + 1;
        return {static_cast<int64_t>(element) * stride + from * stride_window, count, 0, 0, step};
    }

    BK_HD int64_t count_from(Index a) const {
        const Index all = static_cast<Index>(source);
        return a < all ? static_cast<int64_t>(period(all - 1 - a).quotient) + 1 : 0;
    }
};

// Sorts the axes in the order of y's memory and merges plain ones; at least one remains.
BK_COLD inline GatherAdjoint plan_adjoint(const GatherAdjoint& given) {
    constexpr int64_t kMost = int64_t{1} << 30;  // so that indices stay short
    int order[kMaxRank], count = 0;
    for (int d = 0; d < given.rank; ++d) {
        if (given.axis[d].extent == 1 && given.axis[d].is_plain()) continue;
        const int64_t step = given.axis[d].extent == 1 ? INT64_MAX : magnitude(given.axis[d].stride_y);
        int at = count++;
        for (; at > 0 && given.axis[order[at - 1]].extent > 1 && magnitude(given.axis[order[at - 1]].stride_y) < step; --at)
            order[at] = order[at - 1];
        order[at] = d;
    }
    GatherAdjoint sum;
    for (int k = 0; k < count; ++k) {
        const GatherAxis& axis = given.axis[order[k]];
        GatherAxis* const outer = sum.rank > 0 ? &sum.axis[sum.rank - 1] : nullptr;
        if (outer != nullptr && axis.is_plain() && outer->map_mode == AdjointMode::kShift &&
            outer->stride_y == axis.extent * axis.stride_y && outer->stride_x == axis.extent * axis.stride_x &&
            axis.extent <= kMost && std::max(outer->extent, outer->source) <= kMost / axis.extent &&
            magnitude(outer->low) <= kMost / axis.extent) {
            outer->extent *= axis.extent, outer->source *= axis.extent, outer->low *= axis.extent;
            outer->stride_y = axis.stride_y, outer->stride_x = axis.stride_x;
            continue;
        }
        sum.axis[sum.rank++] = axis;
    }
    if (sum.rank == 0) sum.rank = 1;
    return sum;
}

}  // namespace bk

#if BK_CUDA
#include "core/reduce/gather_adjoint_cuda.cuh"
#else
#include "core/reduce/gather_adjoint_cpu.h"
#endif
