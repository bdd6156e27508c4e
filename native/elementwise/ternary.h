// Functions of three operands.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"

namespace bk {

template <template <class> class F, class T>
struct Ternary {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* a, const T* b, const T* c, T* y, const Launch& launch) const {
        return pointwise(launch, numel, F<T>{}, outputs(y), inputs(a, b, c));
    }
};

template <template <class> class F, class T>
struct TernaryStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_y;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_a", stride_a}, {"stride_b", stride_b}, {"stride_c", stride_c}}, {{"stride_y", stride_y}});
    }
    Status run(const T* a, const T* b, const T* c, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<4>(rank, shape, {stride_y, stride_a, stride_b, stride_c}), F<T>{},
                                 outputs(y), inputs(a, b, c));
    }
};

template <template <class> class F, class T, class P>
struct TernaryScaled {
    int64_t numel;
    P scale;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* a, const T* b, const T* c, T* y, const Launch& launch) const {
        return pointwise(launch, numel, F<T>{static_cast<compute_t<T>>(scale)}, outputs(y), inputs(a, b, c));
    }
};

template <template <class> class F, class T, class P>
struct TernaryScaledStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_c;
    const int64_t* stride_y;
    P scale;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_a", stride_a}, {"stride_b", stride_b}, {"stride_c", stride_c}}, {{"stride_y", stride_y}});
    }
    Status run(const T* a, const T* b, const T* c, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<4>(rank, shape, {stride_y, stride_a, stride_b, stride_c}),
                                 F<T>{static_cast<compute_t<T>>(scale)}, outputs(y), inputs(a, b, c));
    }
};

}  // namespace bk
