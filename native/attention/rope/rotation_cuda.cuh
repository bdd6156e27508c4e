// SPDX-License-Identifier: Apache-2.0
// GPU rotation: a thread owns a vector of pairs of one token and walks its block's share of the group's rows; the next
// rows are in flight while it rotates the current ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/rope/rotation.h"
#include "attention/tune.h"
#include "core/math/fastdiv.h"

namespace bk {

// Access of a thread to its pairs: interleaved in one vector, one vector of each half, half a vector of each half, or
// single elements.
enum class PairAccess { kInterleaved, kSplit, kNarrowSplit, kScalar };

// Split 16-bit pairs with computed angles use 8-byte vectors: with eight pairs the registers halve occupancy, and
// angles of twice as many pairs would be computed for half as many rows. Tables are read by whole vectors.
template <class Angles, class T>
constexpr PairAccess kSplitAccess = sizeof(T) == 2 && Angles::kAreComputed ? PairAccess::kNarrowSplit : PairAccess::kSplit;

template <class T, PairAccess kAccess>
constexpr int kPairLanes = kAccess == PairAccess::kScalar        ? 1
                           : kAccess == PairAccess::kNarrowSplit ? kVectorLanes<T> / 2
                                                                 : kVectorLanes<T>;

template <class T, PairAccess kAccess>
struct PairVectors {
    static constexpr int kLanes = kPairLanes<T, kAccess>;
    static constexpr int kPairs = kAccess == PairAccess::kInterleaved ? kLanes / 2 : kLanes;
    Vec<T, kLanes> first, second;  // interleaved pairs use `first` only

    BK_DEVICE void load_from(const T* p, int64_t distance) {
        first = load<kLanes>(p);
        if constexpr (kAccess != PairAccess::kInterleaved) second = load<kLanes>(p + distance);
    }
    BK_DEVICE void store_to(T* p, int64_t distance) const {
        store<kLanes>(p, first);
        if constexpr (kAccess != PairAccess::kInterleaved) store<kLanes>(p + distance, second);
    }
    template <class C>
    BK_DEVICE void rotate(const CosSin<C> (&angle)[kPairs]) {
#pragma unroll
        for (int p = 0; p < kPairs; ++p) {
            T& a = kAccess == PairAccess::kInterleaved ? first.lane[2 * p] : first.lane[p];
            T& b = kAccess == PairAccess::kInterleaved ? first.lane[2 * p + 1] : second.lane[p];
            const Rotated<C> result = rotate_pair<C>(widen(a), widen(b), angle[p]);
            a = narrow<T>(result.first);
            b = narrow<T>(result.second);
        }
    }
};

template <int kPairs, class C, class U>
BK_DEVICE void find_angles(const RotaryTables<U>& tables, int64_t group, int64_t token, int64_t pair,
                           CosSin<C> (&angle)[kPairs]) {
    constexpr int kLanes = kPairs < kVectorLanes<U> ? kPairs : kVectorLanes<U>;
    const auto row = tables.template row<C>(group, token);
#pragma unroll
    for (int p = 0; p < kPairs; p += kLanes) {
        const Vec<U, kLanes> cos = load<kLanes>(row.cos + pair + p), sin = load<kLanes>(row.sin + pair + p);
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane)
            angle[p + lane] = {static_cast<C>(cos.lane[lane]), static_cast<C>(sin.lane[lane])};
    }
}

template <int kPairs, class C>
BK_DEVICE void find_angles(const RotaryPositions<C>& positions, int64_t group, int64_t token, int64_t pair,
                           CosSin<C> (&angle)[kPairs]) {
    const int64_t position = positions.at(group, token);
    WideFloat<kAngleWords<C>> frequency = positions.frequencies.at(pair);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
        angle[p] = cos_sin<C>(position, frequency);
        if (p + 1 < kPairs) frequency = positions.frequencies.after(frequency);
    }
}

// Launch constants. Items are (group, token, vector of a row); of each row's vectors the first `rotated` hold pairs,
// the others features that are copied.
struct RotaryWalk {
    RotaryShape shape;
    int64_t items, rotated, row_vectors;
    int64_t rows_per_block;
    int64_t step, distance;  // elements between vectors, and between the members of a pair
    FastDiv<uint32_t> by_vectors, by_tokens;
};

struct RotaryItem {
    int64_t group, token, vector;
};

BK_DEVICE RotaryItem rotary_item(const RotaryWalk& walk, int64_t item) {
    if (walk.items < int64_t{1} << 31) {
        const auto row = walk.by_vectors(static_cast<uint32_t>(item));
        const auto group = walk.by_tokens(row.quotient);
        return {group.quotient, group.remainder, row.remainder};
    }
    const int64_t row = item / walk.row_vectors;
    return {row / walk.shape.seq_len, row % walk.shape.seq_len, item % walk.row_vectors};
}

// Offset of a row of the group in an operand.
struct RotaryRow {
    int64_t offset, inner;

    BK_DEVICE RotaryRow(const RotaryShape& shape, const RotaryStrides& strides, int64_t row) {
        const int64_t outer = row / shape.inner;
        inner = row - outer * shape.inner;
        offset = outer * strides.outer + inner * strides.inner;
    }
    BK_DEVICE void advance(const RotaryShape& shape, const RotaryStrides& strides) {
        offset += strides.inner;
        if (++inner < shape.inner) return;
        inner = 0;
        offset += strides.outer - shape.inner * strides.inner;
    }
};

// Up to kRotaryUnroll consecutive rows.
template <class T, PairAccess kAccess>
struct RotaryRows {
    PairVectors<T, kAccess> value[kRotaryUnroll];

    BK_DEVICE void load_from(const RotaryWalk& walk, const T* x, RotaryRow* from, int64_t count) {
#pragma unroll
        for (int u = 0; u < kRotaryUnroll; ++u) {
            if (u >= count) break;
            value[u].load_from(x + from->offset, walk.distance);
            from->advance(walk.shape, walk.shape.x);
        }
    }
    BK_DEVICE void store_to(const RotaryWalk& walk, T* y, RotaryRow* to, int64_t count,
                            const CosSin<compute_t<T>> (&angle)[PairVectors<T, kAccess>::kPairs]) {
#pragma unroll
        for (int u = 0; u < kRotaryUnroll; ++u) {
            if (u >= count) break;
            value[u].rotate(angle);
            value[u].store_to(y + to->offset, walk.distance);
            to->advance(walk.shape, walk.shape.y);
        }
    }
};

template <class T, int kLanes>
BK_DEVICE void copy_rows(const RotaryShape& shape, const T* x, T* y, int64_t first, int64_t last) {
    if (x == y) return;
    for (int64_t row = first; row < last; ++row) {
        const int64_t outer = row / shape.inner, inner = row - outer * shape.inner;
        store<kLanes>(y + (outer * shape.y.outer + inner * shape.y.inner),
                      load<kLanes>(x + (outer * shape.x.outer + inner * shape.x.inner)));
    }
}

// Minimum resident blocks per SM: interleaved 16-bit pairs are one register short of a fourth block, split ones some of
// a third.
template <class T, PairAccess kAccess>
constexpr int kRotaryResident = sizeof(T) != 2                        ? 1
                                : kAccess == PairAccess::kInterleaved ? 4
                                : kAccess == PairAccess::kNarrowSplit ? 3
                                                                      : 1;

template <class Angles, class T, PairAccess kAccess>
__global__ void __launch_bounds__(kRotaryThreads, kRotaryResident<T, kAccess>)
    rotate_kernel(const T* x, T* y, RotaryWalk walk, Angles angles) {
    using Pairs = PairVectors<T, kAccess>;
    using C = compute_t<T>;
    const RotaryShape& shape = walk.shape;
    const int64_t item_index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (item_index >= walk.items) return;
    const RotaryItem item = rotary_item(walk, item_index);
    x += item.group * shape.x.group + item.token * shape.x.seq;
    y += item.group * shape.y.group + item.token * shape.y.seq;
    const int64_t first = blockIdx.y * walk.rows_per_block, rows = shape.outer * shape.inner;
    const int64_t last = first + walk.rows_per_block < rows ? first + walk.rows_per_block : rows;
    if (item.vector >= walk.rotated) {
        const int64_t offset = 2 * shape.pairs + (item.vector - walk.rotated) * Pairs::kLanes;
        return copy_rows<T, Pairs::kLanes>(shape, x + offset, y + offset, first, last);
    }
    x += item.vector * walk.step, y += item.vector * walk.step;
    RotaryRow from(shape, shape.x, first), to(shape, shape.y, first);
    RotaryRows<T, kAccess> current;
    current.load_from(walk, x, &from, last - first);  // before the angles, which take as long to compute
    CosSin<C> angle[Pairs::kPairs];
    find_angles<Pairs::kPairs, C>(angles, item.group, item.token, item.vector * Pairs::kPairs, angle);
    if (shape.is_inverse)
#pragma unroll
        for (CosSin<C>& pair_angle : angle) pair_angle.sin = -pair_angle.sin;
    for (int64_t row = first; row < last; row += kRotaryUnroll) {
        RotaryRows<T, kAccess> next;
        next.load_from(walk, x, &from, last - row - kRotaryUnroll);
        current.store_to(walk, y, &to, last - row, angle);
        current = next;
    }
}

template <PairAccess kAccess, class Angles, class T>
Status launch_rotation(const Launch& launch, const RotaryShape& shape, const Angles& angles, const T* x, T* y) {
    using Pairs = PairVectors<T, kAccess>;
    RotaryWalk walk{};
    walk.shape = shape;
    walk.rotated = shape.pairs / Pairs::kPairs;
    walk.row_vectors = walk.rotated + shape.unrotated / Pairs::kLanes;
    walk.items = shape.groups * shape.seq_len * walk.row_vectors;
    walk.step = kAccess == PairAccess::kScalar && !shape.is_split ? 2 : Pairs::kLanes;
    walk.distance = shape.is_split ? shape.pairs : 1;
    walk.by_vectors = FastDiv<uint32_t>(std::min<int64_t>(walk.row_vectors, INT32_MAX));
    walk.by_tokens = FastDiv<uint32_t>(shape.seq_len);
    const int64_t threads = std::min<int64_t>(kRotaryThreads, ceil_div<int64_t>(walk.items, 32) * 32);
    const int64_t blocks = ceil_div(walk.items, threads);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch",
                    static_cast<long long>(walk.items * Pairs::kLanes));
    // Enough blocks to fill the chip, each with enough rows to amortise its angles.
    const int64_t wanted = std::max<int64_t>(1, kRotaryBlocks / blocks);
    const int64_t splits = std::min({wanted, ceil_div<int64_t>(shape.rows(), kRotaryUnroll), kMaxGridY});
    walk.rows_per_block = ceil_div(shape.rows(), splits);
    const int64_t used = ceil_div(shape.rows(), walk.rows_per_block);
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(used)), dim3(static_cast<unsigned>(threads))};
    return launch_kernel(launch, grid, rotate_kernel<Angles, T, kAccess>, x, y, walk, angles);
}

template <class Angles, class T>
Status rotate(const Launch& launch, const RotaryShape& shape, const Angles& angles, const T* x, T* y) {
    constexpr int kLanes = kVectorLanes<T>;
    bool is_wide = is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes) && shape.unrotated % kLanes == 0;
    for (const RotaryStrides* s : {&shape.x, &shape.y})
        is_wide = is_wide && s->group % kLanes == 0 && s->outer % kLanes == 0 && s->inner % kLanes == 0 && s->seq % kLanes == 0;
    constexpr PairAccess kSplitKind = kSplitAccess<Angles, T>;
    const int64_t pairs =
        shape.is_split ? PairVectors<T, kSplitKind>::kPairs : PairVectors<T, PairAccess::kInterleaved>::kPairs;
    if (!is_wide || shape.pairs % pairs != 0 || !angles.takes_vectors(pairs))
        return launch_rotation<PairAccess::kScalar>(launch, shape, angles, x, y);
    return shape.is_split ? launch_rotation<kSplitKind>(launch, shape, angles, x, y)
                          : launch_rotation<PairAccess::kInterleaved>(launch, shape, angles, x, y);
}

}  // namespace bk
