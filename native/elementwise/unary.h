// Functions of one operand, and their gradients from dy and what the forward saved.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"

namespace bk {

template <template <class> class F, class T>
struct Unary {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise(launch, numel, Plain<F<T>>{}, outputs(y), inputs(x));
    }
};

template <template <class> class F, class T>
struct UnaryStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_x}), Plain<F<T>>{}, outputs(y),
                                 inputs(x));
    }
};

template <template <class> class F, class T>
struct UnaryBackward {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, const T* saved, T* dx, const Launch& launch) const {
        return pointwise(launch, numel, Plain<F<T>>{}, outputs(dx), inputs(dy, saved));
    }
};

template <template <class> class F, class T>
struct UnaryBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_saved;
    const int64_t* stride_dx;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_saved", stride_saved}},
                           {{"stride_dx", stride_dx}});
    }
    Status run(const T* dy, const T* saved, T* dx, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_dx, stride_dy, stride_saved}), Plain<F<T>>{},
                                 outputs(dx), inputs(dy, saved));
    }
};

}  // namespace bk
