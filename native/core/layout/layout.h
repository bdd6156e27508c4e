// SPDX-License-Identifier: Apache-2.0
// Extents and strides of several operands that are walked together.
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/platform.h"

namespace bk {

// `Operands` arrays over one index space of up to `MaxRank` axes, the last fastest. Strides count elements.
template <int Operands, int MaxRank = 8>
struct Layout {
    int rank = 0;
    int64_t extent[MaxRank] = {};
    int64_t stride[Operands][MaxRank] = {};

    // Copies a layout of at most MaxRank axes.
    template <int OtherMaxRank>
    void assign(const Layout<Operands, OtherMaxRank>& other) {
        rank = other.rank;
        for (int d = 0; d < rank; ++d) {
            extent[d] = other.extent[d];
            for (int k = 0; k < Operands; ++k) stride[k][d] = other.stride[k][d];
        }
    }

    bool is_empty() const {
        for (int d = 0; d < rank; ++d)
            if (extent[d] == 0) return true;
        return false;
    }

    int64_t numel() const {
        int64_t n = 1;
        for (int d = 0; d < rank; ++d) n *= extent[d];
        return n;
    }

    void append(int64_t axis_extent, const int64_t (&strides)[Operands]) {
        extent[rank] = axis_extent;
        for (int k = 0; k < Operands; ++k) stride[k][rank] = strides[k];
        ++rank;
    }

    // Whether strides are row-major: 1 for the last axis, extents' products for the others.
    bool is_contiguous(int operand) const {
        int64_t expected = 1;
        for (int d = rank - 1; d >= 0; --d) {
            if (stride[operand][d] != expected) return false;
            expected *= extent[d];
        }
        return true;
    }

    // Largest distance of an element from the first, in elements.
    int64_t reach(int operand) const {
        int64_t low = 0, high = 0;
        for (int d = 0; d < rank; ++d) {
            const int64_t step = (extent[d] - 1) * stride[operand][d];
            (step < 0 ? low : high) += step;
        }
        return high > -low ? high : -low;
    }

    // Whether all indices and offsets fit 31 bits.
    bool fits_32bit() const {
        constexpr int64_t limit = int64_t{1} << 31;
        if (numel() >= limit) return false;
        for (int k = 0; k < Operands; ++k)
            if (reach(k) >= limit) return false;
        return true;
    }
};

inline int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Drops axes of extent 1, sorts the others by the stride of operand 0 (largest first, so that adjacent indices are
// adjacent in its memory) and merges axes that all operands cross with one stride.
template <int Operands, int MaxRank>
BK_COLD Layout<Operands, MaxRank> collapse(const Layout<Operands, MaxRank>& given) {
    Layout<Operands, MaxRank> sorted;
    for (int d = 0; d < given.rank; ++d) {
        if (given.extent[d] == 1) continue;
        int at = sorted.rank++;
        while (at > 0 && magnitude(sorted.stride[0][at - 1]) < magnitude(given.stride[0][d])) {
            sorted.extent[at] = sorted.extent[at - 1];
            for (int k = 0; k < Operands; ++k) sorted.stride[k][at] = sorted.stride[k][at - 1];
            --at;
        }
        sorted.extent[at] = given.extent[d];
        for (int k = 0; k < Operands; ++k) sorted.stride[k][at] = given.stride[k][d];
    }
    Layout<Operands, MaxRank> merged;
    for (int d = 0; d < sorted.rank; ++d) {
        bool merges = merged.rank > 0;
        for (int k = 0; merges && k < Operands; ++k)
            merges = merged.stride[k][merged.rank - 1] == sorted.extent[d] * sorted.stride[k][d];
        if (!merges) ++merged.rank;
        const int at = merged.rank - 1;
        merged.extent[at] = merges ? merged.extent[at] * sorted.extent[d] : sorted.extent[d];
        for (int k = 0; k < Operands; ++k) merged.stride[k][at] = sorted.stride[k][d];
    }
    return merged;
}

template <int Operands, class Index>
struct Offsets {
    Index of[Operands];
};

// A layout as kernels take it: fastest axis first, fast divisors, 32-bit offsets if they fit. Index is unsigned for the
// divisions; offsets wrap as two's complement, so negative strides work.
template <int Operands, class Index, int MaxRank = 8>
struct Walk {
    int rank = 0;
    FastDiv<Index> extent[MaxRank];
    Index stride[MaxRank][Operands] = {};

    Walk() = default;
    explicit Walk(const Layout<Operands, MaxRank>& layout) : rank(layout.rank) {
        for (int d = 0; d < rank; ++d) {
            extent[rank - 1 - d] = FastDiv<Index>(layout.extent[d]);
            for (int k = 0; k < Operands; ++k) stride[rank - 1 - d][k] = static_cast<Index>(layout.stride[k][d]);
        }
    }

    // Offsets of the element at linear index i.
    BK_HD Offsets<Operands, Index> operator()(Index i) const {
        Offsets<Operands, Index> result{};
        BK_UNROLL
        for (int d = 0; d < MaxRank; ++d) {
            if (d >= rank) break;
            Index coordinate = i;
            if (d + 1 < rank) {
                const DivMod<Index> split = extent[d](i);
                coordinate = split.remainder;
                i = split.quotient;
            }
            for (int k = 0; k < Operands; ++k) result.of[k] += coordinate * stride[d][k];
        }
        return result;
    }
};

template <class Index>
struct SignedOf;
template <>
struct SignedOf<uint32_t> {
    using type = int32_t;
};
template <>
struct SignedOf<uint64_t> {
    using type = int64_t;
};

// The signed element offset that an Index encodes.
template <class Index>
BK_HD int64_t signed_offset(Index offset) {
    return static_cast<typename SignedOf<Index>::type>(offset);
}

}  // namespace bk
