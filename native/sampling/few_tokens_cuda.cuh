// SPDX-License-Identifier: Apache-2.0
// Selection among few tokens of a row, without passes over the others.
//
// Each of kThreads groups of threads knows the largest of its elements, so that at least R tokens reach the R-th largest of
// these maxima; on average -G ln(1 - R / G) tokens of a row in random order do, for G groups. These candidates contain the
// first R tokens. Top-k of R tokens is decided among them, and top-p if their weights reach its mass. A block has all
// candidates, one a thread; integer sums make their order irrelevant, and blocks decide alike.
#pragma once

#include <cstdint>

#include "sampling/row_blocks_cuda.cuh"

namespace bk::sampling {

constexpr int kMostFirst = kFew / 2;  // R; there are more candidates
constexpr int kFewForAll = 64;        // R up to which all blocks decide, without another barrier
constexpr int kSampled = 16;          // a part of the row, whose weight says whether few tokens may reach top_p
constexpr int kBoundBit = 12;         // lower bits of the bound are 0

class FewTokens : public RowBlocks {
public:
    BK_DEVICE FewTokens(const Split& split, RowMemory& memory) : RowBlocks(split, memory) {}

protected:
    // Publishes the largest key of the elements of each group at the next barrier of the row.
    BK_DEVICE void publish_group(uint32_t own_key) {
        for (int distance = cluster_ / 2; distance > 0; distance /= 2) {
            const uint32_t other = shuffle_xor(own_key, distance);
            own_key = own_key < other ? other : own_key;
        }
        if (thread_ % cluster_ == 0) m_.group[thread_ / cluster_] = own_key;
    }

    // Finds what the row admits and its weight, if that is decided among few tokens; `own_key` is the largest key of this
    // thread's elements. visit_own(visit) runs visit(token, x) over them, total_weight(n) sums the weights of an n-th of the
    // row. If not `is_for_all` blocks, those behind the first one may learn no more than that it is decided.
    template <class VisitOwn, class TotalWeight>
    BK_DEVICE bool choose_few(const RowFilter& f, uint32_t own_key, const VisitOwn& visit_own, const TotalWeight& total_weight,
                              bool is_for_all, Admission* a, uint64_t* total) {
        const int first = count_of_first(f);
        const bool has_own_mass = f.rule == Rule::kSequential && f.top_k == 0;
        if (first == 0 || (has_own_mass && is_flat(f, total_weight(kSampled)))) return false;
        const uint32_t bound = find_bound(first);
        if (own_key >= bound)
            visit_own([&](int64_t token, float x) {
                const uint32_t key = key_of(x);
                if (key < bound) return;
                const uint32_t slot = atomicAdd(&m_.listed, 1u);
                if (slot < kFew) m_.list[slot] = {key, static_cast<uint32_t>(token)};
            });
        const uint64_t row_weight = has_own_mass ? total_weight(1) : 0;
        sync_row();
        const bool is_alone = !is_for_all && cluster_ > 1 && first > kFewForAll;  // the first block
        bool is_found = (!is_alone || rank_ == 0) && gather(f) && find_limit(f, row_weight, &a->limit);
        if (is_alone) {
            publish(static_cast<int>(is_found));
            is_found = published<int>(0) != 0;
        } else if (!is_found) {
            sync_row();  // the lists have been read
        }
        *total = 1;
        if (!is_found || (is_alone && rank_ > 0)) return is_found;
        is_in_ = is_candidate() && weight_ >= a->least &&
                 (key_ > a->limit.key || (key_ == a->limit.key && ties_ahead_ < a->limit.ties));
        *total = block_all(Pair{is_in_ ? weight_ : 0, 0}, AddPairs{}).weight;
        m_.weight[thread_] = is_in_ ? weight_ : 0;
        m_.selection.digit = -1;
        __syncthreads();
        return true;
    }

    // The token where the cumulative weight of the admitted tokens, by index, exceeds `drawn`.
    BK_DEVICE int64_t few_token_at(uint64_t drawn) {
        uint64_t before = 0;
        for (int i = 0; is_in_ && i < count_of_few_; ++i)
            if (m_.index[i] < index_) before += m_.weight[i];
        if (is_in_ && drawn >= before && drawn - before < weight_) m_.selection.digit = static_cast<int>(index_);
        __syncthreads();
        return m_.selection.digit;
    }

    // This thread's token, if it is admitted.
    BK_DEVICE bool is_in() const { return is_in_; }
    BK_DEVICE int64_t own_token() const { return index_; }
    BK_DEVICE uint64_t own_weight() const { return weight_; }

private:
    // The number of largest tokens that decide the row, or may do; 0 if there is none.
    BK_DEVICE static int count_of_first(const RowFilter& f) {
        if (f.rule == Rule::kTypical) return 0;
        if (f.top_k > 0) return f.top_k <= kMostFirst ? static_cast<int>(f.top_k) : 0;
        return f.top_p < 1.0f ? kMostFirst : 0;
    }

    // Whether few tokens hardly reach top_p, by the weight of a part of the row.
    BK_DEVICE static bool is_flat(const RowFilter& f, uint64_t sampled) {
        return kMostFirst * f.weights.of(f.weights.largest) < f.wanted(sampled * (kSampled / 2));
    }

    // A bound that at least `first` groups of the row reach; by bits, in the first warp.
    BK_DEVICE uint32_t find_bound(int first) {
        const int groups = kThreads / cluster_;
        m_.key[thread_] = memory_of(thread_ / groups).group[thread_ % groups];
        __syncthreads();
        if (thread_ < 32) {
            uint32_t keys[kThreads / 32], bound = 0;
            BK_UNROLL
            for (int k = 0; k < kThreads / 32; ++k) keys[k] = m_.key[k * 32 + thread_];
            for (int bit = 31; bit >= kBoundBit; --bit) {
                const uint32_t trial = bound | 1u << bit;
                int count = 0;
                BK_UNROLL
                for (int k = 0; k < kThreads / 32; ++k) count += __popc(__ballot_sync(kWholeWarp, keys[k] >= trial));
                if (count >= first) bound = trial;
            }
            if (thread_ == 0) m_.bound = bound, m_.listed = 0;
        }
        __syncthreads();
        return m_.bound;
    }

    // Takes the candidates of all blocks, unless there are too many, and what stands above each.
    BK_DEVICE bool gather(const RowFilter& f) {
        int count = 0;
        Candidate mine{0, 0};
        for (int rank = 0; rank < cluster_; ++rank) {
            const RowMemory& memory = memory_of(rank);
            if (memory.listed > kFew) return false;
            const int listed = static_cast<int>(memory.listed);
            if (thread_ >= count && thread_ < count + listed) mine = memory.list[thread_ - count];
            count += listed;
        }
        if (count > kFew) return false;
        count_of_few_ = count;
        key_ = mine.key;
        index_ = mine.index;
        weight_ = is_candidate() ? f.weights.of(value_of(key_)) : 0;
        m_.key[thread_] = key_;
        m_.index[thread_] = index_;
        m_.weight[thread_] = weight_;
        __syncthreads();
        for (int i = 0; is_candidate() && i < count; ++i) {
            const uint32_t key = m_.key[i];
            if (key > key_) {
                ++above_;
                weight_above_ += m_.weight[i];
            } else if (key == key_) {
                ++equal_;
                ties_ahead_ += m_.index[i] < index_;
            }
        }
        return true;
    }

    // find_threshold() among the candidates.
    BK_DEVICE bool find_limit(const RowFilter& f, uint64_t row_weight, Threshold* limit) {
        const bool is_sequential = f.rule == Rule::kSequential;
        *limit = {key_of(f.weights.largest), 1};
        if (f.top_k == 1 && is_sequential) return true;
        *limit = {0, 0};
        if (f.top_k > 0)
            *limit = threshold_of(selected(0, above_, equal_, static_cast<uint64_t>(f.top_k)), f.admits_all_ties(), 1);
        if (f.top_p >= 1.0f) return true;
        const uint64_t tie = limit->ties > 0 ? f.weights.of(value_of(limit->key)) : 0;
        const uint32_t floor = is_sequential ? limit->key : 0;
        const uint64_t sum = block_all(Pair{is_candidate() && key_ > floor ? weight_ : 0, 0}, AddPairs{}).weight;
        const uint64_t wanted = f.wanted(is_sequential && f.top_k == 0 ? row_weight : sum + tie * limit->ties);
        if (sum < wanted) {  // a mass of the whole row is reached behind top-k
            if (f.top_k > 0 && is_sequential) *limit = narrowed(f, *limit, {0, sum, 0, wanted, 0, false}, tie);
            return f.top_k > 0;
        }
        const Selection s = selected(floor, weight_above_, equal_ * weight_, wanted);
        // A digit's bin that contains tokens without weight may end a radix selection.
        if (f.weights.of(value_of(s.prefix >> digit_shift(0) << digit_shift(0))) == 0) return false;
        *limit = narrowed(f, *limit, s, tie);
        return true;
    }

    // The state of a selection of all digits, above `floor`; the candidates must reach `wanted`.
    BK_DEVICE Selection selected(uint32_t floor, uint64_t above, uint64_t amount, uint64_t wanted) {
        __syncthreads();
        if (is_candidate() && key_ > floor && ties_ahead_ == 0 && above < wanted && above + amount >= wanted)
            m_.selection = {key_, above, amount, wanted, kDigits, true};
        __syncthreads();
        return m_.selection;
    }

    BK_DEVICE bool is_candidate() const { return thread_ < count_of_few_; }

    bool is_in_ = false;
    int count_of_few_ = 0;
    uint32_t key_ = 0, index_ = 0, above_ = 0, equal_ = 0, ties_ahead_ = 0;
    uint64_t weight_ = 0, weight_above_ = 0;
};

}  // namespace bk::sampling
