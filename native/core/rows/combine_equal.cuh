// Values of a warp's lanes that have one key.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/reduce/shuffle.cuh"
#include "core/rows/scatter_reduce.h"

namespace bk {

// Combines the values of lanes with equal keys into the first of them, which is told so; all 32 lanes take part. A
// value is an update, or what Op collects of some.
template <class Op, class Key, class V>
BK_DEVICE bool combine_equal(const Op& op, Key key, bool valid, V* value) {
    const int lane = threadIdx.x % 32;
    const unsigned equal = __match_any_sync(0xffffffffu, key);
    if (__any_sync(0xffffffffu, valid && (equal & (equal - 1)) != 0)) {
        const unsigned above = lane == 31 ? 0 : 0xffffffffu << (lane + 1);
        unsigned ahead = valid ? equal & above : 0;
        int rank = __popc(equal & ~above) - 1;  // among the equal ones
        // Each round takes the value of the next one that is left, and every other one leaves.
        while (__any_sync(0xffffffffu, ahead != 0)) {
            const int next = __ffs(static_cast<int>(ahead)) - 1;
            const V other = shuffle_from(*value, next < 0 ? lane : next);
            if (next >= 0) *value = combine_collected(op, *value, other);
            ahead &= __ballot_sync(0xffffffffu, (rank & 1) == 0);
            rank >>= 1;
        }
    }
    return valid && __ffs(static_cast<int>(equal)) - 1 == lane;
}

// Places at which the lanes of a warp meet, in shared memory: a bit each, that the first lane sets and all others find.
class MeetingPlaces {
    static constexpr int kWords = 128, kPlaces = 32 * kWords;
    uint4 words_[kWords / 4];

public:
    // By all lanes, before the first meeting.
    BK_DEVICE void clear() {
        words_[threadIdx.x % 32] = uint4{0, 0, 0, 0};
        __syncwarp();
    }
    // Of lanes with one place all but one are told that they may meet there; so are some with other places.
    BK_DEVICE bool may_meet(uint32_t place, bool has_place) {
        const uint32_t at = place % kPlaces, bit = 1u << at / kWords;  // neighbours in words of their own
        uint32_t* const word = reinterpret_cast<uint32_t*>(words_) + at % kWords;
        // Where all lanes have one place only the first of them sets its bit.
        const bool is_as_first = place == __shfl_sync(0xffffffffu, place, 0) && threadIdx.x % 32 != 0;
        const bool may_meet = has_place && (is_as_first || (atomicOr(word, bit) & bit) != 0);
        __syncwarp();
        clear();
        return may_meet;
    }
};

// combine_equal() where `may_meet` has told of lanes whose keys others have, too: of all of one key but one, and of
// others at most by mistake. A turn for each such key takes less than to match all keys, where they are few. `nothing`
// changes no value that it is combined with.
template <class Op, class Key, class V>
BK_DEVICE bool combine_met(const Op& op, Key key, bool valid, bool may_meet, const V& nothing, V* value) {
    const int lane = threadIdx.x % 32;
    bool is_first = valid;
    for (unsigned left = __ballot_sync(0xffffffffu, may_meet); left != 0;) {
        const Key next = __shfl_sync(0xffffffffu, key, __ffs(static_cast<int>(left)) - 1);
        const bool is_equal = valid && key == next;
        const unsigned equal = __ballot_sync(0xffffffffu, is_equal);
        left &= ~equal;
        if ((equal & (equal - 1)) == 0) continue;
        V all = is_equal ? *value : nothing;
        for (int distance = 16; distance > 0; distance /= 2) all = combine_collected(op, all, shuffle_xor(all, distance));
        if (!is_equal) continue;
        *value = all;
        is_first = __ffs(static_cast<int>(equal)) - 1 == lane;
    }
    return is_first;
}

}  // namespace bk
