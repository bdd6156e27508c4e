// Functions of two operands.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"

namespace bk {

template <class Fn, class = void>
constexpr bool kTakesBits = false;
template <class Fn>
constexpr bool kTakesBits<Fn, std::enable_if_t<Fn::takes_bits>> = true;

// The elements as the functor sees them: itself, or as unsigned integers of their bits.
template <class Fn, class T>
auto* elements(T* p) {
    if constexpr (!kTakesBits<Fn>)
        return p;
    else if constexpr (std::is_const_v<T>)
        return reinterpret_cast<const bits_t<T>*>(p);
    else
        return reinterpret_cast<bits_t<T>*>(p);
}

// F sees a of T and b of U and gives what is stored as Y; or of all three the bits.
template <template <class> class F, class T, class U = T, class Y = T>
struct Binary {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* a, const U* b, Y* y, const Launch& launch) const {
        using Fn = F<T>;
        return pointwise(launch, numel, Fn{}, outputs(elements<Fn>(y)), inputs(elements<Fn>(a), elements<Fn>(b)));
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
        using Fn = F<T>;
        return pointwise_strided(launch, make_layout<3>(rank, shape, {stride_y, stride_a, stride_b}), Fn{},
                                 outputs(elements<Fn>(y)), inputs(elements<Fn>(a), elements<Fn>(b)));
    }
};

}  // namespace bk
