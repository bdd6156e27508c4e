// SPDX-License-Identifier: Apache-2.0
// Warp-level combination of the values of lanes that hold equal keys.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "core/platform.h"
#include "core/scatter/scatter_reduce.h"

namespace bk {

// Combines the values of lanes with equal keys into the lowest such lane, for which it returns true. All 32 lanes take
// part. A value is an update or an accumulator of Op.
template <class Op, class Key, class V>
BK_DEVICE bool combine_equal(const Op& op, Key key, bool valid, V* value) {
    const int lane = threadIdx.x % 32;
    const unsigned equal = __match_any_sync(0xffffffffu, key);
    if (__any_sync(0xffffffffu, valid && (equal & (equal - 1)) != 0)) {
        const unsigned above = lane == 31 ? 0 : 0xffffffffu << (lane + 1);
        unsigned ahead = valid ? equal & above : 0;
        int rank = __popc(equal & ~above) - 1;  // among the lanes of this key
        // Each round combines pairs of surviving lanes; the odd ones drop out.
        while (__any_sync(0xffffffffu, ahead != 0)) {
            const int next = __ffs(static_cast<int>(ahead)) - 1;
            const V other = shuffle_from(*value, next < 0 ? lane : next);
            if (next >= 0) *value = combine_accumulators(op, *value, other);
            ahead &= __ballot_sync(0xffffffffu, (rank & 1) == 0);
            rank >>= 1;
        }
    }
    return valid && __ffs(static_cast<int>(equal)) - 1 == lane;
}

// A hash bitmap in shared memory that finds lanes whose key another lane holds, too: the first lane to set a bit is
// unique, later ones may be duplicates.
class DuplicateFilter {
    static constexpr int kWords = 128, kBits = 32 * kWords;
    uint4 words_[kWords / 4];

public:
    // Called by all lanes before the first may_repeat().
    BK_DEVICE void clear() {
        words_[threadIdx.x % 32] = uint4{0, 0, 0, 0};
        __syncwarp();
    }
    // True for all lanes of a key but one, and for some lanes with other keys that share a bit.
    BK_DEVICE bool may_repeat(uint32_t key, bool valid) {
        const uint32_t at = key % kBits, bit = 1u << at / kWords;  // adjacent keys use different words
        uint32_t* const word = reinterpret_cast<uint32_t*>(words_) + at % kWords;
        // If all lanes have one key only lane 0 sets the bit, without contention.
        const bool equals_first_lane = key == __shfl_sync(0xffffffffu, key, 0) && threadIdx.x % 32 != 0;
        const bool may_repeat = valid && (equals_first_lane || (atomicOr(word, bit) & bit) != 0);
        __syncwarp();
        clear();
        return may_repeat;
    }
};

// combine_equal() given `may_repeat`, which holds for all lanes of a repeated key but one, and for a few others by
// mistake. An iteration per repeated key is faster than matching all keys if few repeat. `identity` is neutral in the
// combination.
template <class Op, class Key, class V>
BK_DEVICE bool combine_repeated(const Op& op, Key key, bool valid, bool may_repeat, const V& identity, V* value) {
    const int lane = threadIdx.x % 32;
    bool is_first = valid;
    for (unsigned remaining = __ballot_sync(0xffffffffu, may_repeat); remaining != 0;) {
        const Key next = __shfl_sync(0xffffffffu, key, __ffs(static_cast<int>(remaining)) - 1);
        const bool is_equal = valid && key == next;
        const unsigned equal = __ballot_sync(0xffffffffu, is_equal);
        remaining &= ~equal;
        if ((equal & (equal - 1)) == 0) continue;
        V all = is_equal ? *value : identity;
        for (int distance = 16; distance > 0; distance /= 2) all = combine_accumulators(op, all, shuffle_xor(all, distance));
        if (!is_equal) continue;
        *value = all;
        is_first = __ffs(static_cast<int>(equal)) - 1 == lane;
    }
    return is_first;
}

}  // namespace bk
