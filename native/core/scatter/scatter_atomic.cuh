// SPDX-License-Identifier: Apache-2.0
// Atomic scatter: out[index[j]] is combined with updates[j] along each fiber of the scatter axis. Two kernels: if
// adjacent fibers are contiguous, or a whole row has one index, a thread takes some updates of one fiber, or of N
// adjacent fibers at once, and combines consecutive equal targets before it writes (across). If the fiber itself is
// contiguous, a warp takes adjacent updates of it and combines all equal targets it finds (along).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/reference_chip.h"
#include "core/scatter/atomics.cuh"
#include "core/scatter/combine_duplicates.cuh"
#include "core/scatter/scatter_reduce.h"

namespace bk {

constexpr int kScatterThreads = 256;

// --- Atomic combination ----------------------------------------------------------------------------------------------

BK_DEVICE void atomic_add_one(float* cell, float x) { atomicAdd(cell, x); }
BK_DEVICE void atomic_add_one(double* cell, double x) { atomicAdd(cell, x); }
BK_DEVICE void atomic_add_one(uint32_t* cell, uint32_t x) { atomicAdd(cell, x); }
BK_DEVICE void atomic_add_one(uint64_t* cell, uint64_t x) {
    atomicAdd(reinterpret_cast<unsigned long long*>(cell), static_cast<unsigned long long>(x));
}

template <int Bytes>
struct CasWord;
template <>
struct CasWord<2> {
    using type = unsigned short;
};
template <>
struct CasWord<4> {
    using type = unsigned int;
};
template <>
struct CasWord<8> {
    using type = unsigned long long;
};

// The address range in which the aligned 32-bit word around a 16-bit cell holds nothing but cells of out.
struct CellWords {
    uintptr_t begin = 0, end = 0;

    CellWords() = default;
    template <class T>
    CellWords(const ScatterLayout& s, const T* out) {
        int64_t cells = s.targets;
        for (int d = 0; d < s.cells.rank; ++d) cells *= s.cells.extent[d];
        const ScatterLayout::Extent reach = s.reach();
        if (cells != reach.span) return;
        begin = reinterpret_cast<uintptr_t>(out + reach.low);
        end = begin + static_cast<uintptr_t>(reach.span) * sizeof(T);
    }
    BK_DEVICE bool contains(const void* cell) const {
        const uintptr_t word = reinterpret_cast<uintptr_t>(cell) & ~uintptr_t{3};
        return word >= begin && word + 4 <= end;
    }
};

// Compare-and-swap of one element; nothing is written if the value does not change.
template <class Op, class T, class C>
BK_DEVICE void atomic_cas_combine(const Op& op, T* pointer, C x) {
    using Word = typename CasWord<sizeof(T)>::type;
    Word* const cell = reinterpret_cast<Word*>(pointer);
    Word seen = *static_cast<volatile Word*>(cell), expected;
    do {
        expected = seen;
        const Word wanted = bit_cast<Word>(narrow<T>(op.combine(widen(bit_cast<T>(expected)), x)));
        if (wanted == expected) return;
        seen = atomicCAS(cell, expected, wanted);
    } while (seen != expected);
}

// Integer sums are those of the unsigned bits.
template <int N, class T, class C>
BK_DEVICE void atomic_sum(T* pointer, const C (&value)[N], const CellWords& words) {
    if constexpr (std::is_integral_v<T>) {
        using Bits = std::make_unsigned_t<T>;
#pragma unroll
        for (int i = 0; i < N; ++i) atomic_add_one(reinterpret_cast<Bits*>(pointer) + i, static_cast<Bits>(value[i]));
    } else {
        if constexpr (N == 1 && sizeof(T) == 2) {
            if (words.contains(pointer)) {
                atomic_add_in_pair(pointer, value[0]);
                return;
            }
        }
        atomic_add<N>(pointer, value);
    }
}

template <class Op, int N, class T, class C>
BK_DEVICE void atomic_combine(const Op& op, T* pointer, const C (&value)[N], const CellWords& words) {
    if constexpr (kIsScatterSum<Op>) {
        atomic_sum<N>(pointer, value, words);
        return;
    } else if constexpr (kIsRuntimeScatterOp<Op>) {
        if (op.is_sum()) {
            atomic_sum<N>(pointer, value, words);
            return;
        }
        if (op.resets) {  // every thread stores the same value
#pragma unroll
            for (int i = 0; i < N; ++i) pointer[i] = narrow<T>(op.identity());
            return;
        }
    }
    if constexpr (!kIsScatterSum<Op>) {
#pragma unroll
        for (int i = 0; i < N; ++i) atomic_cas_combine(op, pointer + i, value[i]);
    }
}

// --- Across fibers ---------------------------------------------------------------------------------------------------

struct ScatterAxis {
    int64_t n, updates, index, out;
    int64_t targets, dropped;
    CellWords words;

    explicit ScatterAxis(const ScatterLayout& s, const CellWords& own = {})
        : n(s.n), updates(s.step[0]), index(s.step[1]), out(s.step[2]), targets(s.targets), dropped(s.dropped), words(own) {}
    BK_DEVICE bool keeps(int64_t i) const { return i >= 0 && i < targets && i != dropped; }
};

// Fibers are taken in tiles, one after another, so that the cells being added to stay in L2.
template <class Index>
struct FiberTiles {
    FastDiv<Index> workers, width;  // per tile: threads, and fibers
    int64_t fibers;
};

// A thread takes `share` updates of one fiber, or of N adjacent fibers, which the innermost axis of `fibers` counts.
template <class Op, int N, class T, class Ids, class Index>
__global__ void __launch_bounds__(kScatterThreads, 2)
    scatter_across_kernel(Walk<3, Index> fibers, FiberTiles<Index> tiles, int64_t workers, int share, ScatterAxis axis,
                          const T* updates, Ids index, T* out, Op op) {
    using C = compute_t<T>;
    constexpr int kBatch = sizeof(C) * N > 16 ? 4 : 8;
    const int64_t worker = int64_t{blockIdx.x} * kScatterThreads + threadIdx.x;
    if (worker >= workers) return;
    const auto tile = tiles.workers(static_cast<Index>(worker));
    const auto in_tile = tiles.width(tile.remainder);
    const Index fiber = tile.quotient * tiles.width.divisor() + in_tile.remainder;
    if (fiber >= static_cast<Index>(tiles.fibers)) return;
    const auto at = fibers(fiber);
    updates += signed_offset(at.of[ScatterLayout::kUpdates]);
    index = index + signed_offset(at.of[ScatterLayout::kIndex]);
    out += signed_offset(at.of[ScatterLayout::kOut]);
    const int64_t first = static_cast<int64_t>(in_tile.quotient) * share, last = min(first + share, axis.n);
    int64_t current = -1;
    C sum[N];
    for (int64_t j = first; j < last; j += kBatch) {
        int64_t target[kBatch];
        Vec<T, N> x[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            target[u] = -1;
            if (j + u >= last) continue;
            target[u] = static_cast<int64_t>(index[(j + u) * axis.index]);
            x[u] = load_once<N>(updates + (j + u) * axis.updates);
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            if (!axis.keeps(target[u])) continue;
            if (target[u] == current) {
#pragma unroll
                for (int i = 0; i < N; ++i) sum[i] = op.combine(sum[i], widen(x[u].lane[i]));
                continue;
            }
            if (current >= 0) atomic_combine<Op, N>(op, out + current * axis.out, sum, axis.words);
            current = target[u];
#pragma unroll
            for (int i = 0; i < N; ++i) sum[i] = widen(x[u].lane[i]);
        }
    }
    if (current >= 0) atomic_combine<Op, N>(op, out + current * axis.out, sum, axis.words);
}

template <int N, class Index, class Op, class T, class Ids>
Status launch_across(const Launch& launch, const Op& op, const ScatterLayout& s, const T* updates, Ids index, T* out) {
    constexpr int64_t kThreads = kReferenceSms * 2048, kFull = 4 * kThreads;
    constexpr int64_t kCached = 16 << 20, kAtOnce = 10 << 20;  // bytes of out in L2; added to at once
    constexpr int64_t kTileFibers = 256;
    const int64_t fibers = s.fibers(), bytes = N * static_cast<int64_t>(sizeof(T));
    const bool has_tiles = fibers > kTileFibers && fibers * s.targets > kCached / bytes;
    const auto fits = [&](int64_t share) { return !has_tiles || kThreads * share / s.n * s.targets <= kAtOnce / bytes; };
    int share = 8;
    while (share < 64 && fibers * (s.n / (2 * share)) >= kFull && fits(2 * share)) share *= 2;
    const int64_t width = has_tiles ? kTileFibers : fibers, shares = ceil_div<int64_t>(s.n, share);
    const int64_t workers = ceil_div(fibers, width) * width * shares, blocks = ceil_div<int64_t>(workers, kScatterThreads);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld updates are too many for one launch", (long long)workers);
    const FiberTiles<Index> tiles{FastDiv<Index>(width * shares), FastDiv<Index>(width), fibers};
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kScatterThreads)},
                         scatter_across_kernel<Op, N, T, Ids, Index>, Walk<3, Index>(s.cells), tiles, workers, share,
                         ScatterAxis(s, CellWords(s, out)), updates, index, out, op);
}

// --- Along fibers ----------------------------------------------------------------------------------------------------

// Streaming load: data read once does not evict the cells.
template <class Ids>
BK_DEVICE int64_t load_index_once(Ids index, int64_t at) {
    if constexpr (std::is_pointer_v<Ids>)
        return static_cast<int64_t>(load_once<1>(index + at).lane[0]);
    else
        return index[at];
}

// grid.y counts windows of targets, which are taken one after another.
template <class Op, class T, class Ids, class Index>
__global__ void __launch_bounds__(kScatterThreads)
    scatter_along_kernel(Walk<3, Index> fibers, FastDiv<Index> n, int64_t total, int64_t window, ScatterAxis axis,
                         const T* updates, Ids index, T* out, Op op) {
    using C = compute_t<T>;
    constexpr int kItems = 4;
    __shared__ DuplicateFilter filters[kScatterThreads / 32];
    DuplicateFilter& filter = filters[threadIdx.x / 32];
    filter.clear();
    const int64_t begin = blockIdx.y * window, end = begin + window;
    const int64_t first = int64_t{blockIdx.x} * (kScatterThreads * kItems) + threadIdx.x;
    int64_t target[kItems], base[kItems];
    T x[kItems];
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
        target[u] = -1;
        base[u] = 0;
        if (first + u * kScatterThreads >= total) continue;
        const auto split = n(static_cast<Index>(first + u * kScatterThreads));
        const auto at = fibers(split.quotient);
        const int64_t j = split.remainder;
        target[u] = load_index_once(index, signed_offset(at.of[ScatterLayout::kIndex]) + j * axis.index);
        x[u] = load_once<1>(updates + signed_offset(at.of[ScatterLayout::kUpdates]) + j * axis.updates).lane[0];
        base[u] = signed_offset(at.of[ScatterLayout::kOut]);
    }
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
        const bool valid = target[u] >= begin && target[u] < end && axis.keeps(target[u]);
        const int64_t offset = valid ? base[u] + target[u] * axis.out : 0;
        C value[1] = {valid ? widen(x[u]) : op.identity()};
        const auto address = reinterpret_cast<uintptr_t>(out + offset);
        const bool may_repeat = filter.may_repeat(static_cast<uint32_t>(address / sizeof(T)), valid);
        if (combine_repeated(op, static_cast<unsigned long long>(address), valid, may_repeat, static_cast<C>(op.identity()),
                             &value[0]))
            atomic_combine<Op, 1>(op, out + offset, value, axis.words);
    }
}

template <class Index, class Op, class T, class Ids>
Status launch_along(const Launch& launch, const Op& op, const ScatterLayout& s, const T* updates, Ids index, T* out) {
    // Cells of a fiber that exceed L2 cost the atomics a sector read and write each: reading the updates again for a
    // few windows of targets that fit is faster.
    constexpr int64_t kCached = 32 << 20, kMaxWindows = 4;
    const int64_t reach = magnitude(s.step[ScatterLayout::kOut]) * s.targets * static_cast<int64_t>(sizeof(T));
    const int64_t needed = ceil_div(reach, kCached), windows = s.targets <= s.n && needed <= kMaxWindows ? needed : 1;
    const int64_t total = s.fibers() * s.n, blocks = ceil_div<int64_t>(total, kScatterThreads * 4);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld updates are too many for one launch", (long long)total);
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(windows)), dim3(kScatterThreads)},
                         scatter_along_kernel<Op, T, Ids, Index>, Walk<3, Index>(s.cells), FastDiv<Index>(s.n), total,
                         ceil_div(s.targets, windows), ScatterAxis(s, CellWords(s, out)), updates, index, out, op);
}

// --- Choice ----------------------------------------------------------------------------------------------------------

// Whether N adjacent updates have one index and N adjacent targets, all of it aligned.
template <int N, class T>
bool has_update_vectors(const ScatterLayout& s, const T* updates, const T* out) {
    using L = ScatterLayout;
    const int last = s.cells.rank - 1;
    if (last < 0 || s.cells.extent[last] % N != 0 || s.cells.stride[L::kIndex][last] != 0) return false;
    for (const int k : {L::kUpdates, L::kOut}) {
        if (s.cells.stride[k][last] != 1 || s.step[k] % N != 0) return false;
        for (int d = 0; d < last; ++d)
            if (s.cells.stride[k][d] % N != 0) return false;
    }
    return is_aligned(updates, kVectorBytes) && is_aligned(out, kVectorBytes);
}

template <int N>
ScatterLayout as_vectors(ScatterLayout s) {
    const int last = s.cells.rank - 1;
    s.cells.extent[last] /= N;
    for (int k = 0; k < 3; ++k) s.cells.stride[k][last] *= N;
    return s;
}

template <class Op, class T, class Ids>
Status scatter_atomic(const Launch& launch, const Op& op, const ScatterLayout& given, const T* updates, Ids index, T* out) {
    constexpr int N = kVectorLanes<T>;
    ScatterLayout s = given;
    s.cells = collapse(given.cells);
    const bool is_32bit = s.all().fits_32bit() && s.fibers() * s.n < (int64_t{1} << 31) - 1024;
    const auto across = [&](auto lanes, const ScatterLayout& layout) {
        return is_32bit ? launch_across<lanes(), uint32_t>(launch, op, layout, updates, index, out)
                        : launch_across<lanes(), uint64_t>(launch, op, layout, updates, index, out);
    };
    if (has_update_vectors<N>(s, updates, out)) return across(std::integral_constant<int, N>{}, as_vectors<N>(s));
    const int last = s.cells.rank - 1;
    const bool is_fiber_contiguous = s.fibers() < 32 || magnitude(s.step[ScatterLayout::kUpdates]) <
                                                            magnitude(s.cells.stride[ScatterLayout::kUpdates][last]);
    if (!is_fiber_contiguous) return across(std::integral_constant<int, 1>{}, s);
    return is_32bit ? launch_along<uint32_t>(launch, op, s, updates, index, out)
                    : launch_along<uint64_t>(launch, op, s, updates, index, out);
}

}  // namespace bk
