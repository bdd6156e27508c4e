// SPDX-License-Identifier: Apache-2.0
// Bins: functors that give the bin of an element, below num_bins, or kNoBin for one that is not counted.
//
//   IntegerBins   the element itself
//   UniformBins   bin k has edge(k) <= x < edge(k + 1), the last one also its right edge, as numpy.histogram defines it: edges
//   are
//                 low + k (high - low) / num_bins in f64, rounded to the dtype of x, and x is compared with the edges
//   EdgeBins      the same for given edges in ascending order
//
// `guess` may be uncertain; `exact` is right, and slower. NaN is in no bin.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/convert.h"
#include "core/types/dtype.h"
#include "search/sorted_keys.h"

namespace bk {

constexpr uint32_t kNoBin = 0xffffffff, kUncertainBin = 0xfffffffe;

template <class Bits>
struct IntegerBins {
    using Element = Bits;
    static constexpr bool kIsExact = true;
    static constexpr int64_t kStaged = 0;  // bytes of shared memory
    uint64_t limit;                        // elements from it on are in no bin: as unsigned numbers, negative ones too

    BK_HD uint32_t guess(Bits x) const { return x < limit ? static_cast<uint32_t>(x) : kNoBin; }
    BK_HD uint32_t exact(Bits x, const void*) const { return guess(x); }
};

// Arithmetic is f32 for floats of up to 32 bits, else f64. T is a float, or an integer dtype.
template <class T>
struct UniformBins {
    using Element = T;
    using C = std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, double>, double, float>;
    static constexpr bool kIsExact = false;
    static constexpr int64_t kStaged = 0;

    double first, step;  // of edges
    double span;         // high - low
    C low, high, scale, margin;
    int32_t num_bins;

    static UniformBins make(int32_t num_bins, double low, double high) {
        UniformBins bins{};
        bins.num_bins = num_bins;
        bins.first = low;
        bins.span = high - low;
        bins.step = num_bins > 0 ? bins.span / num_bins : 0;
        bins.low = rounded(low);
        bins.high = rounded(high);
        bins.scale = static_cast<C>(num_bins / bins.span);
        // Errors of (x - low) scale in bins: three roundings of a number up to num_bins, those of low and of an edge.
        constexpr double unit = std::is_same_v<C, float> ? 0x1p-24 : 0x1p-53;
        constexpr double edge_unit = std::is_same_v<T, f16> ? 0x1p-11 : std::is_same_v<T, bf16> ? 0x1p-8 : unit;
        const double largest = std::max(std::abs(low), std::abs(high)), scale = num_bins / bins.span;
        const double margin = 8 * unit * num_bins + 2 * scale * (largest * edge_unit + 0x1p-126 * (sizeof(C) == 4));
        const bool is_certain = margin < 0.25 && std::isfinite(bins.scale);
        bins.margin = static_cast<C>(is_certain ? margin : 1);
        return bins;
    }

    static BK_HD C rounded(double edge) {
        if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
            return edge;
        else
            return widen(narrow<T>(convert<T>(edge)));
    }
    BK_HD C edge(int32_t k) const {
        if (k >= num_bins) return high;
#if BK_ON_GPU
        return rounded(__dadd_rn(__dmul_rn(static_cast<double>(k), step), first));  // no FMA: NumPy rounds twice
#else
        return rounded(static_cast<double>(k) * step + first);
#endif
    }

    BK_HD uint32_t guess(T x) const {
        const C value = static_cast<C>(widen(x));
        const C at = (value - low) * scale;
        const bool is_inside = value >= low && value <= high;
        const C inside = is_inside ? at : C(0);
        const int32_t bin = static_cast<int32_t>(inside < C(num_bins) ? inside : C(0));
        const C fraction = inside - static_cast<C>(bin);
        const bool is_certain = fraction > margin && fraction < C(1) - margin && bin < num_bins;
        return !is_inside ? kNoBin : is_certain ? static_cast<uint32_t>(bin) : kUncertainBin;
    }
    BK_HD uint32_t exact(T x, const void*) const {
        const C value = static_cast<C>(widen(x));
        if (!(value >= low && value <= high) || num_bins == 0) return kNoBin;
        const double at = (static_cast<double>(value) - first) / span * num_bins;
        const int32_t last = num_bins - 1;
        int32_t bin = at < last ? static_cast<int32_t>(at) : last;
        while (bin > 0 && value < edge(bin)) --bin;
        while (bin < last && value >= edge(bin + 1)) ++bin;
        return static_cast<uint32_t>(bin);
    }
};

template <class Bits>
struct EdgeBins {
    using Element = Bits;
    static constexpr bool kIsExact = false;
    static constexpr int64_t kStaged = kStagedBytes;
    SortedKeys<Bits> edges;
    int32_t num_bins;

    BK_HD uint32_t guess(Bits) const { return kUncertainBin; }
    BK_HD uint32_t exact(Bits x, const void* staged) const {
        const Bits key = edges.order(x);
        return bin_at(key, edges.position(static_cast<const Bits*>(staged), key));
    }
    // The bin of a key with `before` edges up to it.
    BK_HD uint32_t bin_at(Bits key, int64_t before) const {
        const bool is_nan = edges.order.kind == KeyKind::kFloat && key == KeyOrder<Bits>::kAll;
        if (before == 0 || is_nan || num_bins == 0) return kNoBin;
        if (before <= num_bins) return static_cast<uint32_t>(before - 1);
        return key == edges.key(num_bins) ? static_cast<uint32_t>(num_bins - 1) : kNoBin;
    }
};

}  // namespace bk
