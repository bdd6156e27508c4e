// y = a x + b with scalars a and b: floats by a fused multiply-add of the compute type, integers modulo 2^width.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/math/integer_quotient.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"

namespace bk {

template <class C>
struct AffineFunctor {
    C scale, offset;
    BK_HD C operator()(C x) const {
        if constexpr (std::is_integral_v<C>)
            return wrapping_add(wrapping_multiply(scale, x), offset);
        else
            return math::fma(scale, x, offset);
    }
};

template <class T>
struct Affine {
    int64_t numel;
    compute_t<T> a;
    compute_t<T> b;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise(launch, numel, AffineFunctor<compute_t<T>>{a, b}, outputs(y), inputs(x));
    }
};

template <class T>
struct AffineStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    compute_t<T> a;
    compute_t<T> b;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_x}), AffineFunctor<compute_t<T>>{a, b},
                                 outputs(y), inputs(x));
    }
};

template <class T>
struct AffineInplace {
    int64_t numel;
    compute_t<T> scale;
    compute_t<T> offset;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(T* y, const Launch& launch) const {
        return pointwise(launch, numel, AffineFunctor<compute_t<T>>{scale, offset}, outputs(y),
                         inputs(static_cast<const T*>(y)));
    }
};

template <class T>
struct AffineInplaceStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_y;
    compute_t<T> scale;
    compute_t<T> offset;

    Work work() const { return all_or_none(numel); }
    Status check() const { return check_shape("numel", numel, rank, "shape", shape, {}, {{"stride_y", stride_y}}); }
    Status run(T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_y}),
                                 AffineFunctor<compute_t<T>>{scale, offset}, outputs(y), inputs(static_cast<const T*>(y)));
    }
};

}  // namespace bk
