// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks for each row (sm_90), or one block. Each block caches its range of the row in shared memory where that
// fits, so that memory is read once.
//
// Sums are integers: neither the cluster's size nor the order of atomics changes a result. Bins of a selection are reduced
// over the cluster by slices, one a block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/collectives/cluster_peers.cuh"
#include "core/collectives/shuffle.cuh"
#include "sampling/token_rows.h"

namespace bk::sampling {

constexpr int kThreads = 512, kWarps = kThreads / 32, kBinsPerThread = kBins / kThreads;
constexpr int kMaxSegments = 1024, kLeastSegment = 1024, kSegmentsPerThread = kMaxSegments / kThreads;
constexpr unsigned kWholeWarp = 0xffffffffu;

struct Pair {
    uint64_t weight, ties;
};
struct LargestOf {
    float largest;
    uint32_t refused;
};
struct AddPairs {
    BK_DEVICE Pair operator()(const Pair& a, const Pair& b) const { return {a.weight + b.weight, a.ties + b.ties}; }
};
struct TakeLargest {
    BK_DEVICE LargestOf operator()(const LargestOf& a, const LargestOf& b) const {
        return {b.largest > a.largest ? b.largest : a.largest, a.refused | b.refused};
    }
};

// Shared memory of a block. Segments and bins are never needed at one time.
struct RowMemory {
    union {
        struct {
            uint32_t low[kBins], high[kBins];  // words of the sums
        };
        struct {
            uint64_t above[kMaxSegments];  // weight above the threshold
            uint32_t ties[kMaxSegments];
        };
    };
    Pair partial[kWarps], slot[2];
    Selection selection;
    uint64_t total;
};

// Segments of a row, a power of two of tokens each, at most kMaxSegments.
BK_HD int segment_shift(int64_t vocab) {
    int shift = 10;
    while (ceil_div<int64_t>(vocab, int64_t{1} << shift) > kMaxSegments) ++shift;
    return shift;
}

// Tokens of a block of the cluster: whole segments.
BK_HD int64_t block_tokens(int64_t vocab, int cluster) {
    const int shift = segment_shift(vocab);
    return ceil_div<int64_t>(ceil_div<int64_t>(vocab, int64_t{1} << shift), cluster) << shift;
}

template <class T>
class GpuRow {
public:
    BK_DEVICE GpuRow(const TokenRows<T>& rows, RowMemory& memory, T* cache, int cluster, int64_t first_row)
        : rows_(rows), m_(memory), cluster_(cluster), thread_(static_cast<int>(threadIdx.x)) {
        rank_ = cluster > 1 ? rank_in_cluster() : 0;
        row_ = first_row + static_cast<int64_t>(blockIdx.x) / cluster;
        const int64_t tokens = block_tokens(rows.vocab, cluster);
        begin_ = min(rank_ * tokens, rows.vocab);
        count_ = min(tokens, rows.vocab - begin_);
        x_ = rows.x + row_ * rows.vocab + begin_;
        cache_ = cache;
    }

    BK_DEVICE void run() {
        const LargestOf found = read_row();
        filter_ = filter_of(rows_, row_, found.largest, found.refused != 0);
        Threshold limit{0, 0};
        if (!filter_.is_refused) limit = find_threshold();
        finish(limit);
        if (cluster_ > 1) sync_cluster();  // others may still read this block's memory
    }

private:
    // --- reductions over the block and the cluster; every thread has the result ---

    template <class V, class Op>
    BK_DEVICE V block_all(V mine, const Op& op) {
        static_assert(sizeof(V) <= sizeof(Pair), "partials are stored as pairs");
        V* const partial = reinterpret_cast<V*>(m_.partial);
        for (int distance = 16; distance > 0; distance /= 2) mine = op(mine, shuffle_xor(mine, distance));
        __syncthreads();
        if (thread_ % 32 == 0) partial[thread_ / 32] = mine;
        __syncthreads();
        V all = partial[0];
        for (int warp = 1; warp < kWarps; ++warp) all = op(all, partial[warp]);
        return all;
    }

    // Publishes a value of each block; of(rank) reads one until the next but one publication.
    template <class V>
    BK_DEVICE void publish(const V& mine) {
        phase_ ^= 1;
        if (thread_ == 0) *reinterpret_cast<V*>(&m_.slot[phase_]) = mine;
        cluster_ > 1 ? sync_cluster() : __syncthreads();
    }
    template <class V>
    BK_DEVICE V published(int rank) const {
        const V* const slot = reinterpret_cast<const V*>(&m_.slot[phase_]);
        return rank == rank_ ? *slot : *cluster_peer(slot, rank);
    }
    template <class V, class Op>
    BK_DEVICE V row_all(const V& mine, const Op& op) {
        V all = block_all(mine, op);
        if (cluster_ == 1) return all;
        publish(all);
        all = published<V>(0);
        for (int rank = 1; rank < cluster_; ++rank) all = op(all, published<V>(rank));
        return all;
    }

    // Sum over the threads before this one, and over all.
    BK_DEVICE uint64_t sum_before(uint64_t mine, uint64_t* total) {
        uint64_t* const partial = reinterpret_cast<uint64_t*>(m_.partial);
        uint64_t inclusive = mine;
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint64_t other = shuffle_up(inclusive, distance);
            if (thread_ % 32 >= distance) inclusive += other;
        }
        __syncthreads();
        if (thread_ % 32 == 31) partial[thread_ / 32] = inclusive;
        __syncthreads();
        uint64_t before = inclusive - mine, all = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
            if (warp < thread_ / 32) before += partial[warp];
            all += partial[warp];
        }
        *total = all;
        return before;
    }

    // --- the row ---

    BK_DEVICE float at(int64_t i) const { return widen(cache_ != nullptr ? cache_[i] : x_[i]); }

    BK_DEVICE LargestOf read_row() {
        LargestOf mine{-bit_cast<float>(kInfinityBits), 0};
        constexpr int kUnroll = 8;
        for (int64_t first = thread_; first < count_; first += kUnroll * kThreads) {
            T x[kUnroll];
            BK_UNROLL
            for (int k = 0; k < kUnroll; ++k)
                if (first + k * kThreads < count_) x[k] = x_[first + k * kThreads];
            BK_UNROLL
            for (int k = 0; k < kUnroll; ++k) {
                if (first + k * kThreads >= count_) break;
                const float value = widen(x[k]);
                if (cache_ != nullptr) cache_[first + k * kThreads] = x[k];
                mine = TakeLargest{}(mine, {value, is_refused(value)});
            }
        }
        return row_all(mine, TakeLargest{});
    }

    BK_DEVICE void find_mean() {
        Pair mine{0, 0};
        for (int64_t i = thread_; i < count_; i += kThreads) {
            const float x = at(i);
            mine = AddPairs{}(mine, {filter_.weights.of(x), filter_.moment(x)});
        }
        const Pair sums = row_all(mine, AddPairs{});
        filter_.mean = RowFilter::mean_of(sums.ties, sums.weight);
    }

    BK_DEVICE Threshold find_threshold() {
        Threshold limit{0, 0};
        if (filter_.rule == Rule::kTypical) find_mean();
        if (filter_.top_k == 1 && !filter_.admits_all_ties()) return {key_of(filter_.weights.largest), 1};
        if (filter_.top_k > 0)
            limit = threshold_of(select(false, 0, 0, static_cast<uint64_t>(filter_.top_k)), filter_.admits_all_ties(), 1);
        if (filter_.top_p >= 1.0f) return limit;
        const uint64_t tie = limit.ties > 0 ? filter_.weights.of(value_of(limit.key)) : 0;
        const uint32_t floor = filter_.rule == Rule::kSequential ? limit.key : 0;
        return narrowed(filter_, limit, select(true, floor, tie * limit.ties, 0), tie);
    }

    // --- selection ---

    // Selects among the tokens whose key is above `floor`, by their number or their weight; `extra` is weight that counts in
    // the total alone.
    BK_DEVICE Selection select(bool by_weight, uint32_t floor, uint64_t extra, uint64_t wanted) {
        Selection s{0, 0, 0, wanted, 0, false};
        do {
            __syncthreads();
            for (int bin = thread_; bin < kBins; bin += kThreads) m_.low[bin] = m_.high[bin] = 0;
            __syncthreads();
            fill_bins(by_weight, floor, s);
            merge_bins(by_weight);
            s = find_bin(by_weight, extra, s);
        } while (s.is_found && !s.is_settled());
        return s;
    }

    BK_DEVICE void fill_bins(bool by_weight, uint32_t floor, const Selection& s) {
        for (int64_t first = thread_ & ~31; first < count_; first += kThreads) {
            const int64_t i = first + (thread_ & 31);
            const float x = i < count_ ? at(i) : 0.0f;
            const uint32_t key = filter_.key(x);
            const bool counts = i < count_ && key > floor && s.holds(key);
            const unsigned lanes = __ballot_sync(kWholeWarp, counts);
            if (lanes == 0) continue;
            const uint64_t amount = !counts ? 0 : by_weight ? filter_.weights.of(x) : 1;
            const uint32_t bin = s.bin(key), leader = __shfl_sync(kWholeWarp, bin, __ffs(static_cast<int>(lanes)) - 1);
            if (__all_sync(kWholeWarp, !counts || bin == leader)) {  // equal elements: no contention
                uint64_t sum = amount;
                for (int distance = 16; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
                if (thread_ % 32 == 0) add_to_bin(leader, sum);
            } else if (counts) {
                add_to_bin(bin, amount);
            }
        }
    }

    // 64-bit atomics of shared memory are loops; a 32-bit one tells whether it carries.
    BK_DEVICE void add_to_bin(uint32_t bin, uint64_t amount) {
        const uint32_t low = static_cast<uint32_t>(amount), old = atomicAdd(&m_.low[bin], low);
        const uint32_t high = static_cast<uint32_t>(amount >> 32) + (old + low < old ? 1u : 0u);
        if (high != 0) atomicAdd(&m_.high[bin], high);
    }

    BK_DEVICE uint64_t bin_of(const RowMemory* memory, int bin, bool by_weight) const {
        return by_weight ? static_cast<uint64_t>(memory->high[bin]) << 32 | memory->low[bin] : memory->low[bin];
    }

    // Sums slice `rank` of all blocks' bins into this block's own, which no other block reads before.
    BK_DEVICE void merge_bins(bool by_weight) {
        __syncthreads();
        if (cluster_ == 1) return;
        sync_cluster();
        const int slice = kBins / cluster_, first = rank_ * slice;
        for (int bin = first + thread_; bin < first + slice; bin += kThreads) {
            uint64_t sum = 0;
            for (int rank = 0; rank < cluster_; ++rank) sum += bin_of(cluster_peer(&m_, rank), bin, by_weight);
            m_.low[bin] = static_cast<uint32_t>(sum);
            m_.high[bin] = static_cast<uint32_t>(sum >> 32);
        }
        sync_cluster();
    }

    // Each thread has adjacent bins, the highest ones first.
    BK_DEVICE Selection find_bin(bool by_weight, uint64_t extra, Selection s) {
        uint64_t sums[kBinsPerThread], mine = 0;
        const int highest = kBins - 1 - thread_ * kBinsPerThread;
        BK_UNROLL
        for (int k = 0; k < kBinsPerThread; ++k) {
            const int bin = highest - k;
            const RowMemory* const memory = cluster_ == 1 ? &m_ : cluster_peer(&m_, bin / (kBins / cluster_));
            sums[k] = bin_of(memory, bin, by_weight);
            mine += sums[k];
        }
        uint64_t total, before = sum_before(mine, &total);
        if (by_weight && s.digit == 0) s.wanted = filter_.wanted(total + extra);
        s.is_found = s.above + total >= s.wanted;
        if (!s.is_found) {
            s.above += total;
        } else if (s.above + before < s.wanted && s.above + before + mine >= s.wanted) {
            int k = 0;
            while (s.above + before + sums[k] < s.wanted) before += sums[k++];
            Selection next = s;
            next.take(static_cast<uint32_t>(highest - k), before, sums[k]);
            m_.selection = next;
        }
        cluster_ > 1 ? sync_cluster() : __syncthreads();  // the bins have been read
        return s.is_found ? m_.selection : s;
    }

    // --- the result ---

    BK_DEVICE void finish(const Threshold& limit) {
        const uint64_t least = filter_.least_weight();
        sum_segments(limit, least);
        const int shift = segment_shift(rows_.vocab), segments = static_cast<int>((count_ + (int64_t{1} << shift) - 1) >> shift);
        Pair mine{0, 0};
        for (int k = 0; k < kSegmentsPerThread; ++k) {
            const int segment = thread_ * kSegmentsPerThread + k;
            if (segment < segments) mine = AddPairs{}(mine, {m_.above[segment], m_.ties[segment]});
        }
        publish(block_all(mine, AddPairs{}));
        const uint64_t tie = limit.ties == 0 ? 0 : weight_of_tie(limit, least);
        uint64_t total = 0, weight_before = 0, own_weight = 0, ties = 0, ties_before = 0;
        for (int rank = 0; rank < cluster_; ++rank) {
            const Pair block = published<Pair>(rank);
            const uint64_t weight = block.weight + tie * admitted_ties(limit, ties, block.ties);
            if (rank == rank_) weight_before = total, own_weight = weight, ties_before = ties;
            total += weight;
            ties += block.ties;
        }
        if (filter_.is_refused) total = 0;
        if (rows_.valid != nullptr && rank_ == 0 && thread_ == 0) rows_.valid[row_] = total > 0;
        if (rows_.output != Output::kToken) {
            write(limit, least, total, ties_before, segments, shift);
        } else if (total == 0) {
            if (rank_ == 0 && thread_ == 0) rows_.token[row_] = 0;
        } else {
            const uint64_t drawn = rows_.seeds.of(row_).below(total, 0);
            if (drawn >= weight_before && drawn - weight_before < own_weight)
                find_token(limit, least, tie, drawn - weight_before, ties_before, segments, shift);
        }
    }

    BK_DEVICE uint64_t weight_of_tie(const Threshold& limit, uint64_t least) const {
        const uint64_t weight = filter_.weights.of(value_of(limit.key));
        return weight >= least ? weight : 0;
    }
    // How many of `count` ties behind `before` others are admitted.
    BK_DEVICE static uint64_t admitted_ties(const Threshold& limit, uint64_t before, uint64_t count) {
        const uint64_t left = before < limit.ties ? limit.ties - before : 0;
        return count < left ? count : left;
    }

    // Weight above the threshold and ties of each segment of the block, a warp each.
    BK_DEVICE void sum_segments(const Threshold& limit, uint64_t least) {
        __syncthreads();
        const int shift = segment_shift(rows_.vocab);
        for (int64_t segment = thread_ / 32; segment << shift < count_; segment += kWarps) {
            const int64_t first = segment << shift, end = min(first + (int64_t{1} << shift), count_);
            Pair sums{0, 0};
            for (int64_t i = first + (thread_ & 31); i < end; i += 32) {
                const float x = at(i);
                const uint32_t key = filter_.key(x);
                if (key < limit.key) continue;
                if (key == limit.key) {
                    ++sums.ties;
                    continue;
                }
                const uint64_t weight = filter_.weights.of(x);
                if (weight >= least) sums.weight += weight;
            }
            for (int distance = 16; distance > 0; distance /= 2) sums = AddPairs{}(sums, shuffle_xor(sums, distance));
            if (thread_ % 32 == 0) m_.above[segment] = sums.weight, m_.ties[segment] = static_cast<uint32_t>(sums.ties);
        }
        __syncthreads();
    }

    // Finds the token at `drawn` of the block's admitted weight: its segment, then the token.
    BK_DEVICE void find_token(const Threshold& limit, uint64_t least, uint64_t tie, uint64_t drawn, uint64_t ties_before,
                              int segments, int shift) {
        Pair items[kSegmentsPerThread];
        BK_UNROLL
        for (int k = 0; k < kSegmentsPerThread; ++k) {
            const int segment = thread_ * kSegmentsPerThread + k;
            items[k] = segment < segments ? Pair{m_.above[segment], m_.ties[segment]} : Pair{0, 0};
        }
        const int segment = find_item(limit, tie, drawn, ties_before, items);
        const int64_t first = static_cast<int64_t>(segment) << shift;
        for (int64_t part = first; part < first + (int64_t{1} << shift); part += kLeastSegment) {
            BK_UNROLL
            for (int k = 0; k < kSegmentsPerThread; ++k) {
                const int64_t i = part + thread_ * kSegmentsPerThread + k;
                items[k] = Pair{0, 0};
                if (i >= count_) continue;
                const float x = at(i);
                const uint32_t key = filter_.key(x);
                const uint64_t weight = key > limit.key ? filter_.weights.of(x) : 0;
                items[k] = {weight >= least ? weight : 0, key == limit.key};
            }
            const int found = find_item(limit, tie, drawn, ties_before, items);
            if (found < 0) continue;
            if (thread_ == 0) rows_.token[row_] = static_cast<int32_t>(begin_ + part + found);
            return;
        }
    }

    // The item at `drawn` of the admitted weight of all threads' items; -1 behind the last one. Moves `drawn` and
    // `ties_before` to the item, or behind the last one.
    BK_DEVICE int find_item(const Threshold& limit, uint64_t tie, uint64_t& drawn, uint64_t& ties_before,
                            const Pair (&items)[kSegmentsPerThread]) {
        uint64_t all_ties = 0, ties = ties_before;
        if (limit.ties > 0) {
            uint64_t mine = 0;
            for (const Pair& item : items) mine += item.ties;
            ties += sum_before(mine, &all_ties);
        }
        uint64_t weights[kSegmentsPerThread], mine = 0, reached = ties;
        BK_UNROLL
        for (int k = 0; k < kSegmentsPerThread; ++k) {
            weights[k] = items[k].weight + tie * admitted_ties(limit, reached, items[k].ties);
            reached += items[k].ties;
            mine += weights[k];
        }
        uint64_t all, before = sum_before(mine, &all);
        if (thread_ == 0) m_.selection.digit = -1;
        __syncthreads();
        if (drawn >= before && drawn - before < mine) {
            int k = 0;
            for (; drawn - before >= weights[k]; ++k) before += weights[k], ties += items[k].ties;
            m_.selection.digit = thread_ * kSegmentsPerThread + k;
            m_.selection.above = drawn - before;
            m_.total = ties;
        }
        __syncthreads();
        const int found = m_.selection.digit;
        drawn = found < 0 ? drawn - all : m_.selection.above;
        ties_before = found < 0 ? ties_before + all_ties : m_.total;
        return found;
    }

    // Writes the filtered row, a warp a segment.
    BK_DEVICE void write(const Threshold& limit, uint64_t least, uint64_t total, uint64_t ties_before, int segments, int shift) {
        uint64_t mine = 0, all;
        for (int k = 0; k < kSegmentsPerThread; ++k) {
            const int segment = thread_ * kSegmentsPerThread + k;
            if (segment < segments) mine += m_.ties[segment];
        }
        uint64_t before = ties_before + sum_before(mine, &all);
        for (int k = 0; k < kSegmentsPerThread; ++k) {  // 64-bit counts of ties before each segment
            const int segment = thread_ * kSegmentsPerThread + k;
            if (segment >= segments) break;
            m_.above[segment] = before;
            before += m_.ties[segment];
        }
        __syncthreads();
        const FilteredValue value = filtered_value(rows_.output, filter_.weights, total);
        const T others = narrow<T>(total > 0 ? value.of_others() : bit_cast<float>(0x7fc00000u));
        T* const y = rows_.y + row_ * rows_.vocab + begin_;
        for (int segment = thread_ / 32; segment < segments; segment += kWarps) {
            uint64_t ties = m_.above[segment];
            const int64_t begin = static_cast<int64_t>(segment) << shift, end = min(begin + (int64_t{1} << shift), count_);
            for (int64_t first = begin; first < end; first += 32) {
                const int64_t i = first + (thread_ & 31);
                const float x = i < end ? at(i) : 0.0f;
                const uint32_t key = filter_.key(x);
                const unsigned equal = __ballot_sync(kWholeWarp, i < end && key == limit.key);
                const uint64_t rank = ties + static_cast<unsigned>(__popc(equal & ((1u << (thread_ & 31)) - 1u)));
                const uint64_t weight = filter_.weights.of(x);
                const bool is_in = total > 0 && weight >= least && (key > limit.key || (key == limit.key && rank < limit.ties));
                if (i < end) y[i] = is_in ? narrow<T>(value.of(x, weight)) : others;
                ties += static_cast<unsigned>(__popc(equal));
            }
        }
    }

    const TokenRows<T>& rows_;
    RowMemory& m_;
    const int cluster_, thread_;
    int rank_ = 0, phase_ = 0;
    int64_t row_ = 0, begin_ = 0, count_ = 0;
    const T* x_ = nullptr;
    T* cache_ = nullptr;
    RowFilter filter_;
};

template <class T>
__global__ void __launch_bounds__(kThreads) 
    token_rows_kernel(TokenRows<T> rows, int64_t first_row, int cluster, int is_cached) {
    __shared__ RowMemory memory;
    BK_LAUNCH_SHARED(T, cache);
    GpuRow<T>(rows, memory, is_cached != 0 ? cache : nullptr, cluster, first_row).run();
}

// Blocks of a row's cluster: as many as the row has segments for, or as let it be cached, if the chip has clusters.
template <class T>
Status run_token_rows(const Launch& launch, const TokenRows<T>& rows) {
    int cluster = 1;
    const int most = static_cast<int>(most_cluster_blocks());
    while (cluster < most && block_tokens(rows.vocab, cluster) > 4 * kLeastSegment) cluster *= 2;
    const int64_t bytes = block_tokens(rows.vocab, cluster) * static_cast<int64_t>(sizeof(T));
    const int64_t room = max_shared_bytes(device_arch()) - static_cast<int64_t>(sizeof(RowMemory)) - 1024;
    const bool is_cached = bytes <= room;
    const int64_t most_rows = kMaxGridX / cluster;
    for (int64_t first = 0; first < rows.batch; first += most_rows) {
        const int64_t count = std::min(most_rows, rows.batch - first);
        Grid grid{dim3(static_cast<unsigned>(count * cluster)), dim3(kThreads)};
        grid.cluster = static_cast<unsigned>(cluster);
        grid.shared = is_cached ? static_cast<unsigned>(bytes) : 0;
        BK_TRY(launch_kernel(launch, grid, token_rows_kernel<T>, rows, first, cluster, is_cached ? 1 : 0));
    }
    return Status::kOk;
}

}  // namespace bk::sampling
