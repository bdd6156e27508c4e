// SPDX-License-Identifier: Apache-2.0
// The blocks of a cluster (sm_90), or one block, that share a row.
//
// Sums are integers: neither the cluster's size nor the order of atomics changes a result. Bins of a selection are reduced
// over the cluster by slices, one a block. A Source has the elements of the block's range: load(i) reads one, keep(i, x)
// may cache it, at(i) is its value.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/collectives/cluster_peers.cuh"
#include "core/collectives/shuffle.cuh"
#include "core/intrinsics/cluster.cuh"
#include "sampling/token_rows.h"

namespace bk::sampling {

constexpr int kThreads = 512, kWarps = kThreads / 32, kBinsPerThread = kBins / kThreads;
constexpr int kMaxSegments = 1024, kLeastSegment = 1024, kItems = kMaxSegments / kThreads;
constexpr unsigned kWholeWarp = 0xffffffffu;

struct AddPairs {
    BK_DEVICE Pair operator()(const Pair& a, const Pair& b) const { return {a.weight + b.weight, a.other + b.other}; }
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

// Split of a row into segments of 2^shift tokens, at most kMaxSegments; blocks of the cluster have equally many.
struct Split {
    int64_t first_row, block_tokens;
    int cluster, shift;
    bool is_cached;
};

inline Split split_of(int64_t vocab, int cluster) {
    int shift = 10;
    while (ceil_div<int64_t>(vocab, int64_t{1} << shift) > kMaxSegments) ++shift;
    return {0, ceil_div<int64_t>(ceil_div<int64_t>(vocab, int64_t{1} << shift), cluster) << shift, cluster, shift, false};
}

template <class Source>
class RowTeam {
public:
    BK_DEVICE RowTeam(const Split& split, int64_t vocab, RowMemory& memory)
        : m_(memory), cluster_(split.cluster), shift_(split.shift), thread_(static_cast<int>(threadIdx.x)) {
        if (cluster_ > 1) open_cluster(&memory, sizeof(memory));
        rank_ = cluster_ > 1 ? rank_of_block() : 0;
        begin_ = min(rank_ * split.block_tokens, vocab);
        count_ = min(split.block_tokens, vocab - begin_);
    }
    // `source` has the elements from first() on.
    BK_DEVICE void open(const Source& source) { source_ = source; }
    BK_DEVICE int64_t first() const { return begin_; }
    // Others may still read this block's memory.
    BK_DEVICE void close() const {
        if (cluster_ > 1) sync_blocks();
    }
    BK_DEVICE bool leads() const { return rank_ == 0 && thread_ == 0; }
    BK_DEVICE bool leads_block() const { return thread_ == 0; }

    BK_DEVICE LargestOf largest() {
        LargestOf mine{-bit_cast<float>(kInfinityBits), 0};
        constexpr int kUnroll = 8;
        for (int64_t first = thread_; first < count_; first += kUnroll * kThreads) {
            typename Source::Element x[kUnroll];
            BK_UNROLL
            for (int k = 0; k < kUnroll; ++k)
                if (first + k * kThreads < count_) x[k] = source_.load(first + k * kThreads);
            BK_UNROLL
            for (int k = 0; k < kUnroll; ++k) {
                if (first + k * kThreads >= count_) break;
                const float value = widen(x[k]);
                source_.keep(first + k * kThreads, x[k]);
                mine = TakeLargest{}(mine, {value, is_refused(value)});
            }
        }
        return row_all(mine, TakeLargest{});
    }

    BK_DEVICE Pair moments(const RowFilter& f) {
        return sum([&](float x) { return Pair{f.weights.of(x), f.moment(x)}; });
    }
    // Sum of of(x) over the row.
    template <class Of>
    BK_DEVICE Pair sum(const Of& of) {
        Pair mine{0, 0};
        for (int64_t i = thread_; i < count_; i += kThreads) mine = AddPairs{}(mine, of(source_.at(i)));
        return row_all(mine, AddPairs{});
    }

    // --- selection ---

    // Selects among the tokens whose key is above `floor`, by their number or their weight; `extra` is weight that counts in
    // the total alone.
    BK_DEVICE Selection select(const RowFilter& f, bool by_weight, uint32_t floor, uint64_t extra, uint64_t wanted) {
        Selection s{0, 0, 0, wanted, 0, false};
        do {
            __syncthreads();
            for (int bin = thread_; bin < kBins; bin += kThreads) m_.low[bin] = m_.high[bin] = 0;
            __syncthreads();
            fill_bins(f, by_weight, floor, s);
            merge_bins(by_weight);
            s = find_bin(f, by_weight, extra, s);
        } while (s.is_found && !s.is_settled());
        return s;
    }

    // The weight of all admitted tokens.
    BK_DEVICE uint64_t admitted_weight(const RowFilter& f, const Admission& a) {
        sum_segments(f, a);
        Pair mine{0, 0};
        for (int k = 0; k < kItems; ++k) {
            const int segment = thread_ * kItems + k;
            if (segment < segment_count()) mine = AddPairs{}(mine, {m_.above[segment], m_.ties[segment]});
        }
        publish(block_all(mine, AddPairs{}));
        const uint64_t weight_of_tie = a.limit.ties == 0 ? 0 : f.weights.of(value_of(a.limit.key));
        tie_ = weight_of_tie >= a.least ? weight_of_tie : 0;
        uint64_t total = 0, ties = 0;
        for (int rank = 0; rank < cluster_; ++rank) {
            const Pair block = published<Pair>(rank);
            const uint64_t weight = block.weight + tie_ * admitted_ties(a.limit, ties, block.other);
            if (rank == rank_) weight_before_ = total, own_weight_ = weight, ties_before_ = ties;
            total += weight;
            ties += block.other;
        }
        return total;
    }
    // The token where the cumulative weight exceeds `drawn`; -1 if another block has it. Follows admitted_weight().
    BK_DEVICE int64_t token_at(const RowFilter& f, const Admission& a, uint64_t drawn) {
        const bool is_here = drawn >= weight_before_ && drawn - weight_before_ < own_weight_;
        return is_here ? find_token(f, a, drawn - weight_before_) : -1;
    }
    // The largest of the blocks' numbers, to all of them.
    BK_DEVICE int64_t agreed(int64_t mine) {
        publish(mine);
        int64_t all = mine;
        for (int rank = 0; rank < cluster_; ++rank) all = max(all, published<int64_t>(rank));
        return all;
    }

    // Writes the filtered row, a warp a segment.
    template <class T>
    BK_DEVICE void write(const RowFilter& f, const Admission& a, uint64_t total, const FilteredValue& value, T* y) {
        y += begin_;
        const int segments = total > 0 ? segment_count() : 0;
        const T others = narrow<T>(total > 0 ? value.of_others() : bit_cast<float>(0x7fc00000u));
        for (int64_t i = thread_; total == 0 && i < count_; i += kThreads) y[i] = others;
        uint64_t mine = 0, all;
        for (int k = 0; k < kItems; ++k) {
            const int segment = thread_ * kItems + k;
            if (segment < segments) mine += m_.ties[segment];
        }
        uint64_t before = ties_before_ + sum_before(mine, &all);
        for (int k = 0; k < kItems; ++k) {  // 64-bit counts of ties before each segment
            const int segment = thread_ * kItems + k;
            if (segment >= segments) break;
            m_.above[segment] = before;
            before += m_.ties[segment];
        }
        __syncthreads();
        for (int segment = thread_ / 32; segment < segments; segment += kWarps) {
            uint64_t ties = m_.above[segment];
            const int64_t begin = static_cast<int64_t>(segment) << shift_, end = min(begin + (int64_t{1} << shift_), count_);
            for (int64_t first = begin; first < end; first += 32) {
                const int64_t i = first + (thread_ & 31);
                const float x = i < end ? source_.at(i) : 0.0f;
                const uint32_t key = f.key(x);
                const unsigned equal = __ballot_sync(kWholeWarp, i < end && key == a.limit.key);
                const uint64_t rank = ties + static_cast<unsigned>(__popc(equal & ((1u << (thread_ & 31)) - 1u)));
                const uint64_t weight = f.weights.of(x);
                const bool is_in = weight >= a.least && (key > a.limit.key || (key == a.limit.key && rank < a.limit.ties));
                if (i < end) y[i] = is_in ? narrow<T>(value.of(x, weight)) : others;
                ties += static_cast<unsigned>(__popc(equal));
            }
        }
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
        cluster_ > 1 ? sync_blocks() : __syncthreads();
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

    BK_DEVICE void fill_bins(const RowFilter& f, bool by_weight, uint32_t floor, const Selection& s) {
        for (int64_t first = thread_ & ~31; first < count_; first += kThreads) {
            const int64_t i = first + (thread_ & 31);
            const float x = i < count_ ? source_.at(i) : 0.0f;
            const uint32_t key = f.key(x);
            const bool counts = i < count_ && key > floor && s.holds(key);
            const unsigned lanes = __ballot_sync(kWholeWarp, counts);
            if (lanes == 0) continue;
            const uint64_t amount = !counts ? 0 : by_weight ? f.weights.of(x) : 1;
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
        sync_blocks();
        const int slice = kBins / cluster_, first = rank_ * slice;
        for (int bin = first + thread_; bin < first + slice; bin += kThreads) {
            uint64_t sum = 0;
            for (int rank = 0; rank < cluster_; ++rank) sum += bin_of(cluster_peer(&m_, rank), bin, by_weight);
            m_.low[bin] = static_cast<uint32_t>(sum);
            m_.high[bin] = static_cast<uint32_t>(sum >> 32);
        }
        sync_blocks();
    }

    // Each thread has adjacent bins, the highest ones first.
    BK_DEVICE Selection find_bin(const RowFilter& f, bool by_weight, uint64_t extra, Selection s) {
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
        if (by_weight && s.digit == 0) s.wanted = f.wanted(total + extra);
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
        cluster_ > 1 ? sync_blocks() : __syncthreads();  // the bins have been read
        return s.is_found ? m_.selection : s;
    }

    // --- segments ---

    BK_DEVICE int segment_count() const { return static_cast<int>((count_ + (int64_t{1} << shift_) - 1) >> shift_); }

    // The number of `count` ties behind `before` others that are admitted.
    BK_DEVICE static uint64_t admitted_ties(const Threshold& limit, uint64_t before, uint64_t count) {
        const uint64_t left = before < limit.ties ? limit.ties - before : 0;
        return count < left ? count : left;
    }

    // Weight above the threshold and ties of each segment of the block, a warp each.
    BK_DEVICE void sum_segments(const RowFilter& f, const Admission& a) {
        __syncthreads();
        for (int64_t segment = thread_ / 32; segment << shift_ < count_; segment += kWarps) {
            const int64_t first = segment << shift_, end = min(first + (int64_t{1} << shift_), count_);
            Pair sums{0, 0};
            for (int64_t i = first + (thread_ & 31); i < end; i += 32) {
                const float x = source_.at(i);
                const uint32_t key = f.key(x);
                if (key < a.limit.key) continue;
                if (key == a.limit.key) {
                    ++sums.other;
                    continue;
                }
                const uint64_t weight = f.weights.of(x);
                if (weight >= a.least) sums.weight += weight;
            }
            for (int distance = 16; distance > 0; distance /= 2) sums = AddPairs{}(sums, shuffle_xor(sums, distance));
            if (thread_ % 32 == 0) m_.above[segment] = sums.weight, m_.ties[segment] = static_cast<uint32_t>(sums.other);
        }
        __syncthreads();
    }

    // Finds the token at `drawn` of the block's admitted weight: its segment, then the token.
    BK_DEVICE int64_t find_token(const RowFilter& f, const Admission& a, uint64_t drawn) {
        const int segments = segment_count();
        uint64_t ties_before = ties_before_;
        Pair items[kItems];
        BK_UNROLL
        for (int k = 0; k < kItems; ++k) {
            const int segment = thread_ * kItems + k;
            items[k] = segment < segments ? Pair{m_.above[segment], m_.ties[segment]} : Pair{0, 0};
        }
        const int segment = find_item(a.limit, drawn, ties_before, items);
        const int64_t first = static_cast<int64_t>(segment) << shift_;
        for (int64_t part = first; part < first + (int64_t{1} << shift_); part += kLeastSegment) {
            BK_UNROLL
            for (int k = 0; k < kItems; ++k) {
                const int64_t i = part + thread_ * kItems + k;
                items[k] = Pair{0, 0};
                if (i >= count_) continue;
                const float x = source_.at(i);
                const uint32_t key = f.key(x);
                const uint64_t weight = key > a.limit.key ? f.weights.of(x) : 0;
                items[k] = {weight >= a.least ? weight : 0, key == a.limit.key};
            }
            const int found = find_item(a.limit, drawn, ties_before, items);
            if (found >= 0) return begin_ + part + found;
        }
        return -1;
    }

    // The item at `drawn` of the admitted weight of all threads' items; -1 behind the last one. Moves `drawn` and
    // `ties_before` to the item, or behind the last one.
    BK_DEVICE int find_item(const Threshold& limit, uint64_t& drawn, uint64_t& ties_before, const Pair (&items)[kItems]) {
        uint64_t all_ties = 0, ties = ties_before;
        if (limit.ties > 0) {
            uint64_t mine = 0;
            for (const Pair& item : items) mine += item.other;
            ties += sum_before(mine, &all_ties);
        }
        uint64_t weights[kItems], mine = 0, reached = ties;
        BK_UNROLL
        for (int k = 0; k < kItems; ++k) {
            weights[k] = items[k].weight + tie_ * admitted_ties(limit, reached, items[k].other);
            reached += items[k].other;
            mine += weights[k];
        }
        uint64_t all, before = sum_before(mine, &all);
        if (thread_ == 0) m_.selection.digit = -1;
        __syncthreads();
        if (drawn >= before && drawn - before < mine) {
            int k = 0;
            for (; drawn - before >= weights[k]; ++k) before += weights[k], ties += items[k].other;
            m_.selection.digit = thread_ * kItems + k;
            m_.selection.above = drawn - before;
            m_.total = ties;
        }
        __syncthreads();
        const int found = m_.selection.digit;
        drawn = found < 0 ? drawn - all : m_.selection.above;
        ties_before = found < 0 ? ties_before + all_ties : m_.total;
        return found;
    }

    RowMemory& m_;
    const int cluster_, shift_, thread_;
    int rank_ = 0, phase_ = 0;
    int64_t begin_ = 0, count_ = 0;
    uint64_t tie_ = 0, weight_before_ = 0, own_weight_ = 0, ties_before_ = 0;  // of the admitted tokens
    Source source_;
};

// Splits for a row: on chips with clusters a block for each 4096 tokens, at most eight.
inline Split choose_split(int64_t vocab) {
    const int most = static_cast<int>(most_cluster_blocks());
    Split split = split_of(vocab, 1);
    while (split.cluster < most && split.block_tokens > 4 * kLeastSegment) split = split_of(vocab, 2 * split.cluster);
    return split;
}

// Launches kernel(arguments, split) with the blocks of `rows` rows; `shared` is a block's dynamic memory in bytes.
template <class Arguments>
Status launch_rows(const Launch& launch, int64_t rows, Split split, int64_t shared, void (*kernel)(Arguments, Split),
                   const Arguments& arguments) {
    const int64_t most_rows = kMaxGridX / split.cluster;
    for (; split.first_row < rows; split.first_row += most_rows) {
        const int64_t count = std::min(most_rows, rows - split.first_row);
        Grid grid{dim3(static_cast<unsigned>(count * split.cluster)), dim3(kThreads)};
        grid.cluster = static_cast<unsigned>(split.cluster);
        grid.shared = static_cast<unsigned>(shared);
        BK_TRY(launch_kernel(launch, grid, kernel, arguments, split));
    }
    return Status::kOk;
}

BK_DEVICE int64_t row_of_block(const Split& split) {
    return split.first_row + static_cast<int64_t>(blockIdx.x) / split.cluster;
}

}  // namespace bk::sampling
