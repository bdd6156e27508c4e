// SPDX-License-Identifier: Apache-2.0
// Rotation of feature pairs, (a, b) -> (a cos - b sin, b cos + a sin), the core of every rotary position embedding.
//
// A row's angles depend on its token; the rows of a group share them token by token. A block computes cosines and sines
// of some pairs and tokens once, then walks the group's rows. A thread reads both members of a pair before it writes
// either, so y may be x.
#pragma once

#include <cstdint>

#include "attention/rope/angles.h"
#include "core/abi/launch.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

// Strides in elements of the axes of rows.
struct RotaryStrides {
    int64_t group, outer, inner, seq;
};

// Each token of a group has outer * inner rows with the same angles. A row has 2 * pairs features that are rotated,
// then `unrotated` ones that are copied. Pair p is (p, p + pairs) if is_split, else (2p, 2p + 1).
struct RotaryShape {
    int64_t groups, outer, inner, seq_len, pairs, unrotated;
    bool is_split;
    bool is_inverse;  // negates the angles
    RotaryStrides x, y;

    int64_t rows() const { return outer * inner; }
    bool is_empty() const { return groups == 0 || rows() == 0 || seq_len == 0 || pairs + unrotated == 0; }
};

// Tables of cosines and sines, contiguous along pairs.
template <class U>
struct RotaryTables {
    static constexpr bool kAreComputed = false;
    const U* cos;
    const U* sin;
    int64_t group, seq;  // strides of table rows, in elements

    template <class C>
    struct Row {
        const U* cos;
        const U* sin;
        BK_HD CosSin<C> at(int64_t pair) const { return {static_cast<C>(cos[pair]), static_cast<C>(sin[pair])}; }
    };
    template <class C>
    BK_HD Row<C> row(int64_t of_group, int64_t of_token) const {
        const int64_t offset = of_group * group + of_token * seq;
        return {cos + offset, sin + offset};
    }
    // Whether tables can be read by vectors of `pairs` entries.
    bool takes_vectors(int64_t pairs) const {
        const size_t bytes = sizeof(U) * static_cast<size_t>(pairs);
        const size_t alignment = bytes < kVectorBytes ? bytes : kVectorBytes;
        return is_aligned(cos, alignment) && is_aligned(sin, alignment) && group % pairs == 0 && seq % pairs == 0;
    }
};

// Angles computed from positions in compute type C. Without positions the token index is the position.
template <class C>
struct RotaryPositions {
    static constexpr bool kAreComputed = true;
    const int64_t* positions;
    int64_t group;  // elements per group of `positions`
    RotaryFrequencies<kAngleWords<C>> frequencies;
    bool are_starts = false;  // positions of each group's first token; others count on

    BK_HD int64_t at(int64_t of_group, int64_t of_token) const {
        if (positions == nullptr) return of_token;
        if (!are_starts) return positions[of_group * group + of_token];
        return static_cast<int64_t>(static_cast<uint64_t>(positions[of_group]) + static_cast<uint64_t>(of_token));
    }
    bool takes_vectors(int64_t) const { return true; }
};

template <class C>
struct Rotated {
    C first, second;
};

template <class C>
BK_HD Rotated<C> rotate_pair(C a, C b, const CosSin<C>& angle) {
    return {a * angle.cos - b * angle.sin, b * angle.cos + a * angle.sin};
}

// Rotates the rows of x into y. y may be x, of equal strides.
template <class Angles, class T>
Status rotate(const Launch& launch, const RotaryShape& shape, const Angles& angles, const T* x, T* y);

}  // namespace bk

#if BK_CUDA
#include "attention/rope/rotation_cuda.cuh"
#else
#include "attention/rope/rotation_cpu.h"
#endif
