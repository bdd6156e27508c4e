// SPDX-License-Identifier: Apache-2.0
// Casts between element types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"
#include "core/types/convert.h"
#include "elementwise/cast_by_code.h"

namespace bk {

template <class T, class U>
struct CastFunctor {
    using ByCode = CastByCode<bits_t<T>, bits_t<U>>;
    static constexpr ByCode by_code() { return {kCastCode<T>, kCastCode<U>}; }
    BK_HD auto operator()(compute_t<T> x) const { return convert<U>(x); }
};

template <class T, class U>
constexpr bool kIsConversion<CastFunctor<T, U>, U, T> = true;

// Types of the loop that casts T to U. Casts between integers with the same bit operation share a loop; a cast of a
// type to itself copies bits, NaN payloads included (but a bool becomes 0 or 1).
template <class T, class U, class = void>
struct CastTypes {
    using From = T;
    using To = U;
};

template <class T>
struct CastTypes<T, T, std::enable_if_t<!std::is_integral_v<T> && !std::is_same_v<T, boolean>>> {
    using From = bits_t<T>;
    using To = bits_t<T>;
};

template <class T, class U>
struct CastTypes<T, U, std::enable_if_t<std::is_integral_v<T> && std::is_integral_v<U>>> {
    using From = std::conditional_t<sizeof(U) <= sizeof(T), bits_t<T>, T>;
    using To = bits_t<U>;
};

template <class T, class U>
struct Cast {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* x, U* y, const Launch& launch) const {
        return pointwise(launch, numel, Function{}, outputs(reinterpret_cast<To*>(y)),
                         inputs(reinterpret_cast<const From*>(x)));
    }

private:
    using From = typename CastTypes<T, U>::From;
    using To = typename CastTypes<T, U>::To;
    using Function =
        std::conditional_t<std::is_same_v<From, To> && !std::is_same_v<From, boolean>, CopyFunctor, CastFunctor<From, To>>;
};

template <class T, class U>
struct CastStrided {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status run(const T* x, U* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<2>(rank, shape, {stride_y, stride_x}), Function{},
                                 outputs(reinterpret_cast<To*>(y)), inputs(reinterpret_cast<const From*>(x)));
    }

private:
    using From = typename CastTypes<T, U>::From;
    using To = typename CastTypes<T, U>::To;
    using Function =
        std::conditional_t<std::is_same_v<From, To> && !std::is_same_v<From, boolean>, CopyFunctor, CastFunctor<From, To>>;
};

}  // namespace bk
