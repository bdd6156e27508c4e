// SPDX-License-Identifier: Apache-2.0
// Random variables whose parameter is an array: Bernoulli of probabilities, Poisson of rates.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/random/segment.h"
#include "random/poisson.h"
#include "random/tune.h"

namespace bk {

namespace op {

// 1 where the word is below p 2^32, rounded; 0 for NaN and p <= 0, 1 for p >= 1.
template <class T>
struct BernoulliOf {
    using C = compute_t<T>;
    RandomSource source;
    Numbering numbering;

    struct Segment : WordSegment<kVectorLanes<T>> {
        BK_HD C operator()(int64_t k, C p) const {
            const double words = static_cast<double>(p) * 0x1p32 + 0.5;
            // A double compares every word exactly; `words` is not an integer, so that its integer part counts.
            const bool holds = static_cast<double>(this->word(k)) + 1.0 <= words;
            return math::select(holds, C(1), C(0));
        }
    };
    BK_HD Segment at(int64_t i) const {
        Segment segment;
        segment.fill(source.stream<1>(), numbering, i);
        return segment;
    }
};

template <class T>
struct PoissonOf {
    using C = compute_t<T>;
    RandomSource source;
    Numbering numbering;

    struct Segment {
        const PoissonOf& of;
        WordStream<2> stream;
        int64_t first;
        static constexpr int64_t count = INT64_MAX;

        BK_HD C operator()(int64_t k, C rate) const {
            const uint64_t i = of.numbering(first + k);
            uint32_t word[2];
            stream.words(i, word);
            return static_cast<C>(dist::poisson(static_cast<double>(rate), word, {stream.seed, stream.offset + i, 2, 0}));
        }
    };
    BK_HD Segment at(int64_t i) const { return {*this, source.stream<2>(), i}; }
};

}  // namespace op

// y[i] of a parameter array of equal extents.
template <class T, template <class> class Functor>
struct RandomOf {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_p;
    const int64_t* stride_y;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_p", stride_p}}, {{"stride_y", stride_y}});
    }
    Status run(const T* p, const int64_t* state, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_p}),
                                 Functor<T>{{seed, offset, state}, numbering_of(rank, shape, stride_y, 1)}, outputs(y),
                                 inputs(p));
    }
};

template <class T>
using RandomBernoulliOf = RandomOf<T, op::BernoulliOf>;
template <class T>
using RandomPoissonOf = RandomOf<T, op::PoissonOf>;

}  // namespace bk
