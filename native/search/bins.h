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
#include <limits>
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
    static constexpr bool kIsExact = true, kHasFixedPoint = false;
    static constexpr int64_t kStaged = 0;  // bytes of shared memory
    uint64_t limit;                        // elements from it on are in no bin: as unsigned numbers, negative ones too

    BK_HD uint32_t guess(Bits x) const { return x < limit ? static_cast<uint32_t>(x) : kNoBin; }
    BK_HD uint32_t exact(Bits x, const void*) const { return guess(x); }
};

// floor(x y + z) to a float: one rounding, downwards.
BK_HD float fma_down(float x, float y, float z) {
#if BK_ON_GPU
    return __fmaf_rd(x, y, z);
#else
    const double product = static_cast<double>(x) * y, sum = product + z, of_z = sum - product;  // TwoSum (Knuth)
    const double error = (product - (sum - of_z)) + (z - of_z);
    const float near = static_cast<float>(sum);
    return near > sum || (near == sum && error < 0) ? std::nextafter(near, -std::numeric_limits<float>::infinity()) : near;
#endif
}

// Bins in fixed point, for GPUs: position() of an element has 2^shift units a bin. Bin k begins at the unit k 2^shift, to
// `margin` units; the bits of a float from 2^23 on are such numbers.
//
// An element x of 16 bits reaches an edge rounded to its dtype if it reaches the edge itself by its upper end, halfway to the
// next element, which belongs to it if its last bit is 0. So the bins of upper ends need no rounded edges.
template <class T>
struct FixedPointBins {
    static constexpr bool kHasUpperEnd = sizeof(T) == 2;

    float scale, offset;
    int32_t base, shift, margin;
    uint32_t units, certain;  // of all bins; of a bin without margins

    // `num_bins` bins of [low, high]; no units where a bin has too few of them.
    static FixedPointBins make(int32_t num_bins, double low, double high) {
        FixedPointBins fixed{};
        constexpr double kOrigin = (1 << 23) + 64;
        while (fixed.shift < 16 && int64_t{num_bins} << (fixed.shift + 1) <= (1 << 23) - 128) ++fixed.shift;
        const double span = high - low, scale = std::ldexp(num_bins / span, fixed.shift), offset = kOrigin - low * scale;
        const double largest = std::max(std::abs(low), std::abs(high)) * scale;
        if (num_bins == 0 || num_bins > 1 << 20 || !(scale < 0x1p60) || !(scale > 0x1p-60) || !(largest < 0x1p30)) return fixed;
        fixed.scale = static_cast<float>(scale);
        fixed.offset = static_cast<float>(offset);
        // Edges at multiples of a unit, and sums that are exact before they are rounded down, need no margin.
        int exponent;
        const bool is_exact = std::frexp(scale, &exponent) == 0.5 && num_bins / span * span == num_bins &&
                              static_cast<double>(fixed.offset) == offset && std::floor(offset) == offset && largest < 0x1p23;
        // Else: rounding of the sum, of the offset, and of the scale, the edges (twice) and the upper end relative to x.
        const double margin = 1 + std::max(0.5, std::abs(offset) * 0x1p-24) + 6 * largest * 0x1p-24;
        fixed.margin = is_exact ? 0 : static_cast<int32_t>(std::ceil(margin));
        if (fixed.margin > 1 << fixed.shift >> 2) return fixed;
        fixed.base = bit_cast<int32_t>(static_cast<float>(kOrigin)) + fixed.margin;
        fixed.units = static_cast<uint32_t>(num_bins) << fixed.shift;
        fixed.certain = (1u << fixed.shift) - 2 * static_cast<uint32_t>(fixed.margin);
        return fixed;
    }

    BK_HD bool is_usable() const { return units != 0; }
    // The unit of x, less the margin; any other number for an element outside.
    BK_HD uint32_t position(T x) const { return position_of(widen(x)); }
    BK_HD uint32_t position_of(float x) const {
        return static_cast<uint32_t>(bit_cast<int32_t>(fma_down(point(x), scale, offset)) - base);
    }
    BK_HD bool is_certain(uint32_t position) const { return position < units && (position & ((1u << shift) - 1)) < certain; }
    BK_HD uint32_t bin(uint32_t position) const { return position >> shift; }
    // The edge that is nearest to a position inside.
    BK_HD int32_t nearest_edge(uint32_t position) const {
        return (static_cast<int32_t>(position) + margin + (1 << shift >> 1)) >> shift;
    }

private:
    // x, or its upper end. -0 becomes +0.
    BK_HD float point(float x) const {
        if constexpr (!kHasUpperEnd) {
            return x;
        } else if constexpr (std::is_same_v<T, bf16>) {
            const uint32_t bits = bit_cast<uint32_t>(x + 0.0f), sign = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
            const uint32_t half = 0x8000u - (bits >> 16 & 1);
            return bit_cast<float>(bits + (half ^ sign) - sign);
        } else {
            T next = narrow<T>(x + 0.0f);
            const bool is_negative = next.bits >> 15 != 0;
            const uint32_t odd = next.bits & 1u;
            next.bits = static_cast<uint16_t>(next.bits + (is_negative ? -1 : 1));
            const uint32_t middle = bit_cast<uint32_t>((x + widen(next)) * 0.5f);
            return bit_cast<float>(is_negative ? middle + odd : middle - odd);
        }
    }
};

// Arithmetic is f32 for floats of up to 32 bits, else f64. T is a float, or an integer dtype.
template <class T>
struct UniformBins {
    using Element = T;
    using C = std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, double>, double, float>;
    static constexpr bool kIsExact = false;
    static constexpr int64_t kStaged = 0;
    static constexpr bool kHasFixedPoint = BK_CUDA && std::is_same_v<C, float>;
    struct None {
        static None make(int32_t, double, double) { return {}; }
    };
    using FixedPoint = std::conditional_t<kHasFixedPoint, FixedPointBins<T>, None>;

    double first, step;  // of edges
    double span;         // high - low
    C low, high, scale, margin;
    int32_t num_bins;
    FixedPoint fixed;

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
        bins.fixed = FixedPoint::make(num_bins, low, high);
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
    // The bin of an element whose position is not certain.
    BK_HD uint32_t beside_edge(T x, uint32_t position) const {
        const C value = static_cast<C>(widen(x));
        if (!(value >= low && value <= high)) return kNoBin;
        const int32_t k = fixed.nearest_edge(position);
        if (k <= 0) return 0;
        if (k >= num_bins) return static_cast<uint32_t>(num_bins - 1);
        return static_cast<uint32_t>(value >= edge(k) ? k : k - 1);
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
    static constexpr bool kIsExact = false, kHasFixedPoint = false;
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
