// SPDX-License-Identifier: Apache-2.0
// Histograms on a GPU. Counts are integers, so that atomics give the same bits in any order.
//
// Few bins: each block counts in shared memory, in 2^k copies of the table that lanes share, so that lanes of a warp seldom
// share an address or a bank (32 copies up to 256 bins: never), and adds its table to the output at the end. Many bins: a
// block caches the bins that it finds first, and adds the others to the output directly; frequent bins are found early, so that
// no address in memory is hot. Few elements: one block or cluster has the whole table, so that the output needs no clearing,
// which would take a launch of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/collectives/cluster_peers.cuh"
#include "core/intrinsics/cluster.cuh"
#include "core/types/vec.h"
#include "search/count.h"
#include "search/count_patterns_cuda.cuh"
#include "search/searchsorted_cuda.cuh"

namespace bk {

constexpr int kCountBinThreads = 512;
constexpr int64_t kTableBytes = 32 << 10;    // of shared memory for copies of a table
constexpr int64_t kMaxTableBins = 48 << 10;  // with one copy
constexpr int64_t kWholeTableBytes = 8 << 10, kWholeTableBins = 4096;
constexpr int64_t kWholeElements = 8192;  // of each block of a cluster
constexpr int kMostWholeBlocks = 8;
constexpr int kCacheBits = 11, kCacheSlots = 1 << kCacheBits;

// The search is not inlined into each lane of a vector.
template <class Bins>
BK_DEVICE_COLD uint32_t exact_bin(const Bins& bins, typename Bins::Element x, const void* staged) {
    return bins.exact(x, staged);
}

template <class Bins>
BK_DEVICE uint32_t bin_of(const Bins& bins, typename Bins::Element x, const void* staged) {
    if constexpr (Bins::kHasFixedPoint) {
        const uint32_t position = bins.fixed.position(x);
        if (bins.fixed.is_certain(position)) return bins.fixed.bin(position);
        return bins.fixed.is_usable() ? bins.beside_edge(x, position) : exact_bin(bins, x, staged);
    } else {
        const uint32_t bin = bins.guess(x);
        if constexpr (Bins::kIsExact) return bin;
        return bin == kUncertainBin ? exact_bin(bins, x, staged) : bin;
    }
}

// visit(bin, is_bin) for the elements of a loaded vector; `is_bin` says that the bin is none but kNoBin. In fixed point all
// lanes are mostly certain; else they are read once more.
template <class Bins, class Vector, class Visit>
BK_DEVICE void visit_vector(const Bins& bins, const Vector& loaded, const typename Bins::Element* x, const void* staged,
                            const Visit& visit) {
    constexpr int N = kVectorLanes<typename Bins::Element>;
    if constexpr (Bins::kHasFixedPoint) {
        uint32_t position[N];
        bool is_certain = true;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            position[k] = bins.fixed.position_of(widen_lane(loaded, k));
            is_certain &= bins.fixed.is_certain(position[k]);
        }
        if (is_certain) {
#pragma unroll
            for (int k = 0; k < N; ++k) visit(bins.fixed.bin(position[k]), std::true_type());
        } else {
#pragma unroll 1
            for (int k = 0; k < N; ++k) visit(bin_of(bins, x[k], staged), std::false_type());
        }
    } else {
#pragma unroll
        for (int k = 0; k < N; ++k) visit(bin_of(bins, loaded.lane[k], staged), std::false_type());
    }
}

// visit(bin, is_bin) for each element that this block has of n, by all its threads. Elements ahead of the first vector-aligned
// one, and behind the last whole vector, are those of block 0.
template <class Bins, class Visit>
BK_DEVICE void visit_bins(const Bins& bins, const typename Bins::Element* x, int64_t n, int64_t head, const void* staged,
                          const Visit& visit) {
    using Element = typename Bins::Element;
    constexpr int N = kVectorLanes<Element>, kUnroll = sizeof(Element) == 1 ? 1 : 2;
    const int64_t vectors = (n - head) / N, step = int64_t{gridDim.x} * kCountBinThreads;
    for (int64_t v = int64_t{blockIdx.x} * kCountBinThreads + threadIdx.x; v < vectors; v += kUnroll * step) {
        Vec<Element, N> loaded[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
            if (v + u * step < vectors) loaded[u] = load_once<N>(x + head + (v + u * step) * N);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (v + u * step >= vectors) break;
            visit_vector(bins, loaded[u], x + head + (v + u * step) * N, staged, visit);
        }
    }
    if (blockIdx.x > 0) return;
    const int64_t single = n - vectors * N;  // the head, then the tail
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < single; i += kCountBinThreads)
        visit(bin_of(bins, x[i < head ? i : i + vectors * N], staged), std::false_type());
}

template <class Bins>
BK_DEVICE const void* stage_bins(const Bins& bins, void* shared) {
    if constexpr (Bins::kStaged > 0) {
        using Bits = typename Bins::Element;
        stage_splitters(bins.edges, static_cast<Bits*>(shared), kCountBinThreads);
    }
    return shared;
}

// Stores the sums of a cluster's blocks; that of a bin is in its first copy.
BK_DEVICE void store_counts(const CountTable& table, uint32_t* copies) {
    const int blocks = static_cast<int>(gridDim.x), rank = blocks > 1 ? rank_of_block() : 0;
    if (blocks > 1) sync_blocks();
    for (int bin = rank * kCountBinThreads + static_cast<int>(threadIdx.x); bin < table.num_bins;
         bin += blocks * kCountBinThreads) {
        uint32_t* const mine = copies + (int64_t{bin} << table.copy_bits);
        uint32_t sum = *mine;
#pragma unroll
        for (int other = 0; other < kMostWholeBlocks; ++other)
            if (other < blocks && other != rank) sum += *cluster_peer(mine, other);
        table.set(bin, sum);
    }
    if (blocks > 1) sync_blocks();  // others may still read
}

template <class Bins>
__global__ void __launch_bounds__(kCountBinThreads)
    count_in_shared_kernel(const __grid_constant__ Bins bins, const typename Bins::Element* x, int64_t n, int64_t head,
                           CountTable table) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    uint32_t* const copies = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(shared_words) + Bins::kStaged);
    const int64_t words = int64_t{table.num_bins} << table.copy_bits;
    if (table.is_whole && gridDim.x > 1) open_cluster(copies, static_cast<size_t>(words) * 4);
    for (int64_t i = threadIdx.x; i < words; i += kCountBinThreads) copies[i] = 0;
    const void* const staged = stage_bins(bins, shared_words);
    __syncthreads();
    const uint32_t copy = threadIdx.x & ((1u << table.copy_bits) - 1);
    visit_bins(bins, x, n, head, staged, [&](uint32_t bin, auto is_bin) {
        if (decltype(is_bin)::value || bin != kNoBin) atomicAdd(copies + (bin << table.copy_bits | copy), 1u);
    });
    __syncthreads();
    for (int bin = static_cast<int>(threadIdx.x); bin < table.num_bins; bin += kCountBinThreads) {
        uint32_t sum = 0;
        for (int c = 0; c < 1 << table.copy_bits; ++c)  // rotated, so that lanes read different banks
            sum += copies[(int64_t{bin} << table.copy_bits) + ((c + bin) & ((1 << table.copy_bits) - 1))];
        if (table.is_whole)
            copies[int64_t{bin} << table.copy_bits] = sum;
        else if (sum > 0)
            table.add(bin, sum);
    }
    if (table.is_whole) store_counts(table, copies);
}

template <class Bins>
__global__ void __launch_bounds__(kCountBinThreads)
    count_in_memory_kernel(const __grid_constant__ Bins bins, const typename Bins::Element* x, int64_t n, int64_t head,
                           CountTable table) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    __shared__ uint32_t cached_bin[kCacheSlots], cached_count[kCacheSlots];
    for (int i = static_cast<int>(threadIdx.x); i < kCacheSlots; i += kCountBinThreads) {
        cached_bin[i] = kNoBin;
        cached_count[i] = 0;
    }
    const void* const staged = stage_bins(bins, shared_words);
    __syncthreads();
    visit_bins(bins, x, n, head, staged, [&](uint32_t bin, auto is_bin) {
        if (!decltype(is_bin)::value && bin == kNoBin) return;
        const uint32_t slot = bin * 2654435769u >> (32 - kCacheBits);  // multiplicative hashing (Knuth)
        uint32_t owner = *static_cast<volatile uint32_t*>(cached_bin + slot);
        if (owner == kNoBin) owner = atomicCAS(cached_bin + slot, kNoBin, bin);
        if (owner == bin || owner == kNoBin)
            atomicAdd(cached_count + slot, 1u);
        else
            table.add(bin, 1);
    });
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kCacheSlots; i += kCountBinThreads)
        if (cached_count[i] > 0) table.add(cached_bin[i], cached_count[i]);
}

// Elements ahead of the first one that is aligned for vectors.
template <class Element>
int64_t elements_to_alignment(const Element* x, int64_t n) {
    const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x) % kVectorBytes);
    return beyond == 0 ? 0 : std::min(n, (kVectorBytes - beyond) / static_cast<int64_t>(sizeof(Element)));
}

// Blocks that share n elements: enough to fill the chip, and so many that a block counts fewer than 2^31 of them.
template <class Element>
int64_t count_blocks(int64_t n, int64_t blocks_per_sm) {
    constexpr int64_t block_elements = 4 * kCountBinThreads * kVectorLanes<Element>;
    const int64_t most = std::max<int64_t>(device_sms(), 1) * blocks_per_sm;
    return std::max(std::min(ceil_div(n, block_elements), most), ceil_div<int64_t>(n, int64_t{1} << 30));
}

// The number of copies of a table that fit, as a power of two, at most 32.
inline int32_t copy_bits_within(int64_t num_bins, int64_t bytes) {
    int32_t bits = 0;
    while (bits < 5 && (num_bins << (bits + 1)) * 4 <= bytes) ++bits;
    return bits;
}

template <class Bins>
unsigned shared_bytes(const CountTable& table) {
    return static_cast<unsigned>(Bins::kStaged + (int64_t{table.num_bins} << table.copy_bits) * 4);
}

template <class Bins, class Count>
Status count_bins(const Launch& launch, const Bins& bins, const typename Bins::Element* x, int64_t n, int64_t num_bins,
                  Count* counts) {
    using Element = typename Bins::Element;
    CountTable table{counts, static_cast<int32_t>(num_bins), 0, sizeof(Count) == 8, false};
    const int64_t head = elements_to_alignment(x, n), whole_blocks = ceil_div(n, kWholeElements);
    table.is_whole = num_bins <= kWholeTableBins && whole_blocks <= most_cluster_blocks();
    if (table.is_whole) {
        table.copy_bits = copy_bits_within(num_bins, kWholeTableBytes);
        const auto blocks = static_cast<unsigned>(whole_blocks);
        const Grid grid{dim3(blocks), dim3(kCountBinThreads), blocks, shared_bytes<Bins>(table)};
        return launch_kernel(launch, grid, count_in_shared_kernel<Bins>, bins, x, n, head, table);
    }
    BK_TRY(clear_counts(launch, num_bins, counts));
    if constexpr (kCountsPatterns<Bins>) {
        bool is_done = false;
        const Status status = count_patterns(launch, bins, x, n, head, table, &is_done);
        if (status != Status::kOk || is_done) return status;
    }
    const int64_t largest = std::min<int64_t>(kMaxTableBins, (max_shared_bytes(device_arch()) - (1 << 10) - Bins::kStaged) / 4);
    // A table in shared memory is cleared and added to the output by each block, which must pay.
    if (num_bins > largest || num_bins > std::max<int64_t>(n, 4096)) {
        const Grid grid{dim3(static_cast<unsigned>(count_blocks<Element>(n, 4))), dim3(kCountBinThreads), 1,
                        static_cast<unsigned>(Bins::kStaged)};
        return launch_kernel(launch, grid, count_in_memory_kernel<Bins>, bins, x, n, head, table);
    }
    table.copy_bits = copy_bits_within(num_bins, kTableBytes);
    const unsigned bytes = shared_bytes<Bins>(table);
    const int64_t blocks_per_sm = std::max<int64_t>(1, std::min<int64_t>(4, (227 << 10) / (bytes + 1024)));
    const Grid grid{dim3(static_cast<unsigned>(count_blocks<Element>(n, blocks_per_sm))), dim3(kCountBinThreads), 1, bytes};
    return launch_kernel(launch, grid, count_in_shared_kernel<Bins>, bins, x, n, head, table);
}

// The bins of a loaded vector in fixed point.
template <class Bins, class Vector>
BK_DEVICE void store_bins(const Bins& bins, const Vector& loaded, const typename Bins::Element* x, int32_t* output) {
    constexpr int N = kVectorLanes<typename Bins::Element>;
    Vec<int32_t, 4> found[N / 4];
    bool is_certain = true;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const uint32_t position = bins.fixed.position_of(widen_lane(loaded, k));
        is_certain &= bins.fixed.is_certain(position);
        found[k / 4].lane[k % 4] = static_cast<int32_t>(bins.fixed.bin(position));
    }
    if (is_certain) {
#pragma unroll
        for (int k = 0; k < N / 4; ++k) store_once<4>(output + 4 * k, found[k]);
    } else {
#pragma unroll 1
        for (int k = 0; k < N; ++k) output[k] = static_cast<int32_t>(bin_of(bins, x[k], nullptr));
    }
}

// The first `vectors` vectors of aligned operands, then single elements.
template <class Bins>
__global__ void __launch_bounds__(kCountBinThreads)
    find_bins_kernel(const __grid_constant__ Bins bins, const typename Bins::Element* x, int64_t n, int64_t vectors,
                     int32_t* output) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    const void* const staged = stage_bins(bins, shared_words);
    const int64_t step = int64_t{gridDim.x} * kCountBinThreads, first = int64_t{blockIdx.x} * kCountBinThreads + threadIdx.x;
    constexpr int N = kVectorLanes<typename Bins::Element>;
    if constexpr (Bins::kHasFixedPoint)
        for (int64_t v = first; v < vectors; v += step) store_bins(bins, load_once<N>(x + v * N), x + v * N, output + v * N);
    for (int64_t i = vectors * N + first; i < n; i += step) output[i] = static_cast<int32_t>(bin_of(bins, x[i], staged));
}

template <class Bins>
Status find_bins(const Launch& launch, const Bins& bins, const typename Bins::Element* x, int64_t n, int32_t* output) {
    using Element = typename Bins::Element;
    const bool has_vectors = Bins::kHasFixedPoint && is_aligned(x, kVectorBytes) && is_aligned(output, kVectorBytes);
    const int64_t vectors = has_vectors ? n / kVectorLanes<Element> : 0;
    const int64_t most = std::max<int64_t>(device_sms(), 1) * 4;
    const int64_t blocks = std::min(ceil_div<int64_t>(has_vectors ? vectors + 1 : n, kCountBinThreads), most);
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kCountBinThreads), 1, static_cast<unsigned>(Bins::kStaged)};
    return launch_kernel(launch, grid, find_bins_kernel<Bins>, bins, x, n, vectors, output);
}

}  // namespace bk
