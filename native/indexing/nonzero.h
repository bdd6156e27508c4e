// SPDX-License-Identifier: Apache-2.0
// nonzero: row-major coordinates of the elements that are not zero.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"
#include "core/select/select_indices.h"
#include "core/types/complex.h"
#include "indexing/masked.h"

namespace bk {

// An element is nonzero if it has one of these bits: all but the sign of a float, all but both signs of a complex
// number.
template <class T>
constexpr bits_t<T> kNonzeroBits = static_cast<bits_t<T>>(~bits_t<T>{});
template <>
constexpr uint64_t kNonzeroBits<double> = ~uint64_t{0} >> 1;
template <>
constexpr uint32_t kNonzeroBits<float> = ~uint32_t{0} >> 1;
template <>
constexpr uint16_t kNonzeroBits<f16> = 0x7fff;
template <>
constexpr uint16_t kNonzeroBits<bf16> = 0x7fff;
template <>
constexpr uint8_t kNonzeroBits<e4m3> = 0x7f;
template <>
constexpr uint8_t kNonzeroBits<e5m2> = 0x7f;

template <>
constexpr uint64_t kNonzeroBits<c32> = 0x7fffffff7fffffff;
template <>
constexpr Word16 kNonzeroBits<c64> = {{~uint64_t{0} >> 1, ~uint64_t{0} >> 1}};

template <class I>
struct CoordinateSink {
    I* table;
    I* counter;
    int64_t limit;
    UnravelIndex unravel;
    bool has_pairs;  // rank 2: both coordinates in one store

    CoordinateSink(I* rows, I* count, int64_t limit_rows, const UnravelIndex& of)
        : table(rows),
          counter(count),
          limit(limit_rows),
          unravel(of),
          has_pairs(of.rank() == 2 && is_aligned(rows, 2 * sizeof(I))) {}
    BK_HD void operator()(int64_t rank, int64_t index) const {
        if (rank >= limit) return;
        I* const row = table + rank * unravel.rank();
        if (has_pairs) {
            Vec<I, 2> pair;
            unravel(index,
                    [&](int d, int64_t coordinate) { (d == 0 ? pair.lane[0] : pair.lane[1]) = static_cast<I>(coordinate); });
            store<2>(row, pair);
            return;
        }
        unravel(index, [&](int d, int64_t coordinate) { row[d] = static_cast<I>(coordinate); });
    }
    // The count saturates at the largest I.
    BK_HD void total(int64_t count) const {
        constexpr int64_t largest = sizeof(I) == sizeof(int32_t) ? int64_t{INT32_MAX} : INT64_MAX;
        *counter = static_cast<I>(count < largest ? count : largest);
    }
};

template <class T, class I>
struct Nonzero {
    int64_t numel;
    int32_t rank;
    int32_t max_nz;
    const int32_t* shape;
    const int64_t* stride_x;

    Work work() const { return numel == 0 ? Work::kZeros : Work::kAll; }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {}));
        return require_non_negative({{"max_nz", max_nz}});
    }
    size_t workspace_size() const { return select_workspace(numel); }
    Status run(const T* x, I* out_coords, I* counter, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, 1, counter);
        using Bits = bits_t<T>;
        const Layout<1> layout = make_layout<1>(rank, shape, {stride_x});
        const CoordinateSink<I> sink(out_coords, counter, max_nz, UnravelIndex(layout));
        return with_predicate(reinterpret_cast<const Bits*>(x), kNonzeroBits<T>, layout,
                              [&](const auto& predicate) { return select_indices(launch, numel, predicate, sink); });
    }
};

}  // namespace bk
