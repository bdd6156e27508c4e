// SPDX-License-Identifier: Apache-2.0
// The blocks of a cluster (sm_90), or one block, that share a row.
//
// Sums are integers: neither the cluster's size nor the order of atomics changes a result. Bins of a selection are reduced
// over the cluster by slices, one a block. A Source has the elements of the block's range: load(i) reads one, keep(i, x)
// may cache it, at(i) is its value.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "sampling/few_tokens_cuda.cuh"

namespace bk::sampling {

template <class Source>
class RowTeam : public FewTokens {
public:
    BK_DEVICE RowTeam(const Split& split, int64_t vocab, RowMemory& memory) : FewTokens(split, memory), shift_(split.shift) {
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
        const int64_t vectored = vectored_count();
        const LargestOf own = TakeLargest{}(load_own<Source::kLanes>(0, vectored), load_own<1>(vectored, count_));
        own_key_ = key_of(own.largest);
        publish_group(own_key_);
        return row_all(own, TakeLargest{});
    }

    // Finds what the row admits, and the weight of that, if it is decided among few tokens: for token_at(), or write().
    BK_DEVICE bool find_few(const RowFilter& f, bool writes_row, Admission* a, uint64_t* total) {
        const auto visit_own = [&](const auto& visit) {
            const int64_t vectored = vectored_count();
            visit_own_range<Source::kLanes>(0, vectored, visit);
            visit_own_range<1>(vectored, count_, visit);
        };
        const auto total_weight = [&](int share) {
            return sum([&](float x) { return Pair{f.weights.of(x), 0}; }, share).weight;
        };
        return has_few_ = choose_few(f, own_key_, visit_own, total_weight, writes_row, a, total);
    }

    BK_DEVICE Pair moments(const RowFilter& f) {
        return sum([&](float x) { return Pair{f.weights.of(x), f.moment(x)}; });
    }
    // Sum of of(x) over the row, or one part in `share` of it.
    template <class Of>
    BK_DEVICE Pair sum(const Of& of, int share = 1) {
        Pair mine{0, 0};
        for (int64_t i = thread_; i < count_ / share; i += kThreads) mine = AddPairs{}(mine, of(source_.at(i)));
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
    // The token where the cumulative weight exceeds `drawn`; -1 if another block has it. Follows admitted_weight(), or
    // find_few().
    BK_DEVICE int64_t token_at(const RowFilter& f, const Admission& a, uint64_t drawn) {
        if (has_few_) return rank_ == 0 ? few_token_at(drawn) : -1;
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
        const T others = narrow<T>(total > 0 ? value.of_others() : bit_cast<float>(0x7fc00000u));
        if (has_few_) {
            const int64_t own = own_token() - begin_;
            const bool is_here = is_in() && own >= 0 && own < count_;
            const T kept = is_here ? narrow<T>(value.of(source_.at(own), own_weight())) : others;
            __syncthreads();  // y may be x
            fill(others, y);
            __syncthreads();
            if (is_here) y[own] = kept;
            return;
        }
        if (total == 0) fill(others, y);
        const int segments = total > 0 ? segment_count() : 0;
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
    // --- elements of a thread: vectors of N adjacent ones, then single ones ---

    BK_DEVICE int64_t vectored_count() const { return source_.has_vectors() ? count_ / Source::kLanes * Source::kLanes : 0; }

    template <int N>
    BK_DEVICE LargestOf load_own(int64_t begin, int64_t end) const {
        using Elements = Vec<typename Source::Element, N>;
        constexpr int kUnroll = N > 4 ? 4 : 8;
        LargestOf own{-bit_cast<float>(kInfinityBits), 0};
        for (int64_t first = begin + thread_ * N; first < end; first += kUnroll * kThreads * N) {
            Elements x[kUnroll];
            BK_UNROLL
            for (int k = 0; k < kUnroll; ++k)
                if (first + k * kThreads * N < end) x[k] = source_.template load<N>(first + k * kThreads * N);
            BK_UNROLL
            for (int k = 0; k < kUnroll; ++k) {
                if (first + k * kThreads * N >= end) break;
                source_.keep(first + k * kThreads * N, x[k]);
                BK_UNROLL
                for (int lane = 0; lane < N; ++lane) {
                    const float value = widen_lane(x[k], lane);
                    own = TakeLargest{}(own, {value, is_refused(value)});
                }
            }
        }
        return own;
    }
    template <int N, class Visit>
    BK_DEVICE void visit_own_range(int64_t begin, int64_t end, const Visit& visit) const {
        for (int64_t first = begin + thread_ * N; first < end; first += kThreads * N)
            for (int lane = 0; lane < N; ++lane) visit(begin_ + first + lane, source_.at(first + lane));
    }
    template <class T>
    BK_DEVICE void fill(T value, T* y) const {
        constexpr int N = kVectorLanes<T>;
        const int64_t vectored = reinterpret_cast<uintptr_t>(y) % kVectorBytes == 0 ? count_ / N * N : 0;
        Vec<T, N> values;
        for (T& lane : values.lane) lane = value;
        for (int64_t i = thread_ * N; i < vectored; i += kThreads * N) store<N>(y + i, values);
        for (int64_t i = vectored + thread_; i < count_; i += kThreads) y[i] = value;
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
            constexpr int kUnroll = 4;
            for (int64_t i = first + (thread_ & 31); i < end; i += 32 * kUnroll) {
                float x[kUnroll];
                BK_UNROLL
                for (int k = 0; k < kUnroll; ++k) x[k] = i + 32 * k < end ? source_.at(i + 32 * k) : 0.0f;
                BK_UNROLL
                for (int k = 0; k < kUnroll; ++k) {
                    const uint32_t key = f.key(x[k]);
                    const uint64_t weight = f.weights.of(x[k]);
                    const bool is_in = i + 32 * k < end;
                    sums.other += is_in && key == a.limit.key;
                    sums.weight += is_in && key > a.limit.key && weight >= a.least ? weight : 0;
                }
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

    const int shift_;
    bool has_few_ = false;
    uint32_t own_key_ = 0;
    int64_t begin_ = 0, count_ = 0;
    uint64_t tie_ = 0, weight_before_ = 0, own_weight_ = 0, ties_before_ = 0;  // of the admitted tokens
    Source source_;
};

}  // namespace bk::sampling
