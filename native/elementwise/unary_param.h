// Functions of one operand and one or two numbers.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"
#include "elementwise/power.h"

namespace bk {

// The functor with its parameters in the compute type; an exponent of powi is an integer.
template <template <class> class F, class T, class P, class... More>
F<T> make_functor(P p0, More... more) {
    using C = compute_t<T>;
    constexpr bool takes_integer = std::is_same_v<F<T>, op::Powi<T>> || std::is_same_v<F<T>, op::PowiBackward<T>>;
    if constexpr (takes_integer && std::is_integral_v<P>)
        return F<T>{p0};
    else if constexpr (takes_integer)
        return F<T>{op::integer_exponent(p0)};
    else
        return F<T>{static_cast<C>(p0), static_cast<C>(more)...};
}

template <template <class> class F, class T, class P>
struct UnaryParam1 {
    int64_t numel;
    P p0;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise(launch, numel, make_functor<F, T>(p0), outputs(y), inputs(x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam1Strided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    P p0;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_x}), make_functor<F, T>(p0), outputs(y),
                                 inputs(x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam1Backward {
    int64_t numel;
    P p0;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        return pointwise(launch, numel, make_functor<F, T>(p0), outputs(dx), inputs(dy, x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam1BackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    P p0;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_x", stride_x}},
                           {{"stride_dx", stride_dx}});
    }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_dx, stride_dy, stride_x}), make_functor<F, T>(p0),
                                 outputs(dx), inputs(dy, x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam2 {
    int64_t numel;
    P p0;
    P p1;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise(launch, numel, make_functor<F, T>(p0, p1), outputs(y), inputs(x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam2Strided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    P p0;
    P p1;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_x}), make_functor<F, T>(p0, p1),
                                 outputs(y), inputs(x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam2Backward {
    int64_t numel;
    P p0;
    P p1;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        return pointwise(launch, numel, make_functor<F, T>(p0, p1), outputs(dx), inputs(dy, x));
    }
};

template <template <class> class F, class T, class P>
struct UnaryParam2BackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    P p0;
    P p1;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_x", stride_x}},
                           {{"stride_dx", stride_dx}});
    }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_dx, stride_dy, stride_x}),
                                 make_functor<F, T>(p0, p1), outputs(dx), inputs(dy, x));
    }
};

// As UnaryParam2Backward, but x comes before dy.
template <class T>
struct PowiBackwardStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_dy;
    const int64_t* stride_dx;
    float p0;
    float p1;

    Work work() const { return all_or_none(numel); }
    Status check() const { return same().check(); }
    Status run(const T* x, const T* dy, T* dx, const Launch& launch) const { return same().run(dy, x, dx, launch); }

private:
    UnaryParam2BackwardStrided<op::PowiBackward, T, float> same() const {
        return {numel, rank, shape, stride_dy, stride_x, stride_dx, p0, p1};
    }
};

}  // namespace bk
