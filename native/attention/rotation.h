// The rotation of pairs of features, which all rotary position embeddings are: (a, b) -> (a cos - b sin, b cos + a sin).
//
// The angles of a row depend on its place in the sequence, and rows that share them are a group: a block finds the cosines
// and sines of some pairs at some places once, then walks the group's rows. A thread reads both members of its pairs before it
// writes either.
#pragma once

#include <cstdint>

#include "attention/angles.h"
#include "core/abi/launch.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

// Elements from one row to the next along each of its axes.
struct RotaryStrides {
    int64_t group, outer, inner, place;
};

// outer * inner rows of each group have the angles of one place. A row has 2 * pairs features that are rotated, and then
// `rest` that stay. The members of pair p are p and p + pairs if is_split, else 2p and 2p + 1.
struct RotaryShape {
    int64_t groups, outer, inner, places, pairs, rest;
    bool is_split;
    bool is_inverse;  // by the negative angles
    RotaryStrides x, y;

    int64_t rows() const { return outer * inner; }
    bool is_empty() const { return groups == 0 || rows() == 0 || places == 0 || pairs + rest == 0; }
};

// Angles by their cosines and sines, which lie pair by pair.
template <class U>
struct RotaryTables {
    static constexpr bool kAreComputed = false;
    const U* cos;
    const U* sin;
    int64_t group, place;  // elements from one row of a table to the next

    template <class C>
    struct Row {
        const U* cos;
        const U* sin;
        BK_HD CosSin<C> at(int64_t pair) const { return {static_cast<C>(cos[pair]), static_cast<C>(sin[pair])}; }
    };
    template <class C>
    BK_HD Row<C> row(int64_t of_group, int64_t of_place) const {
        const int64_t offset = of_group * group + of_place * place;
        return {cos + offset, sin + offset};
    }
    // Whether vectors of `pairs` of them can be read.
    bool takes_vectors(int64_t pairs) const {
        const size_t bytes = sizeof(U) * static_cast<size_t>(pairs);
        const size_t alignment = bytes < kVectorBytes ? bytes : kVectorBytes;
        return is_aligned(cos, alignment) && is_aligned(sin, alignment) && group % pairs == 0 && place % pairs == 0;
    }
};

// Angles of positions, in the arithmetic of C. Without an array of them a row's is its place.
template <class C>
struct RotaryPositions {
    static constexpr bool kAreComputed = true;
    const int64_t* positions;
    int64_t group;  // from one group's positions to the next's
    RotaryFrequencies<kAngleWords<C>> frequencies;
    bool are_starts = false;  // of the first place of a group; others follow

    BK_HD int64_t at(int64_t of_group, int64_t of_place) const {
        if (positions == nullptr) return of_place;
        if (!are_starts) return positions[of_group * group + of_place];
        return static_cast<int64_t>(static_cast<uint64_t>(positions[of_group]) + static_cast<uint64_t>(of_place));
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

// y = the rotated rows of x, each dense. y may be x, of equal strides.
template <class Angles, class T>
Status rotate(const Launch& launch, const RotaryShape& shape, const Angles& angles, const T* x, T* y);

}  // namespace bk

#if BK_CUDA
#include "attention/rotation_cuda.cuh"
#else
#include "attention/rotation_cpu.h"
#endif
