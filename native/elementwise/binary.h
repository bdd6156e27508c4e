// Functions of two operands.
#pragma once

#include <cstdint>

#include "core/checks.h"
#include "core/pointwise.h"
#include "core/strided_args.h"

namespace bk {

// F sees a of T and b of U and gives what is stored as Y.
template <template <class> class F, class T, class U = T, class Y = T>
struct Binary {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* a, const U* b, Y* y, const Launch& launch) const {
        return pointwise(launch, numel, F<T>{}, outputs(y), inputs(a, b));
    }
};

template <template <class> class F, class T, class U = T, class Y = T>
struct BinaryStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_y;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_a", stride_a}, {"stride_b", stride_b}},
                           {{"stride_y", stride_y}});
    }
    Status run(const T* a, const U* b, Y* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_y, stride_a, stride_b}), F<T>{}, outputs(y),
                                 inputs(a, b));
    }
};

}  // namespace bk
