// Elementwise functors whose GPU kernels depart from the usual vectors and registers: {vectors, registers}, 0 as usual. All
// were measured on an H200 to be faster so; the registers that a kernel then takes are those of nvcc 13 for sm_90.
//
// kManyConstants: of f64 functions with long polynomials the elements of a vector share their constants, more of them than 32
// registers hold; functions, gradients aside, take 40 to 56. kTwoVectors, in place of one in f64 and of three in others.
// kResident: as many threads as a multiprocessor holds, which the latency of memory wants, in place of the 40 or 48 registers
// that three operands have.
#pragma once

#include <type_traits>

#include "core/math/math.h"
#include "core/pointwise/tuning.h"
#include "core/types/dtype.h"

namespace bk {

namespace op {
template <class T>
struct Atan2;
template <class T>
struct Cos;
template <class T>
struct Div;
template <class T>
struct FloorDivide;
template <class T>
struct Gelu;
template <class T>
struct GeluBackward;
template <class T>
struct GeluTanh;
template <class T>
struct GeluTanhBackward;
template <class T>
struct Lgamma;
template <class T>
struct Mish;
template <class T>
struct MishBackward;
template <class T>
struct Pow;
template <class T>
struct Sigmoid;
template <class T>
struct Silu;
template <class T>
struct SiluBackward;
template <class T>
struct Sin;
template <class T>
struct Softplus;
template <class T>
struct SoftplusOfOne;
template <class T>
struct Tan;
template <class T>
struct Tanh;
}  // namespace op

template <class From, class To>
struct CastByCode;
template <class Fn>
struct WithDefaults;

template <class T>
constexpr bool kIsF64 = std::is_same_v<T, double>;

constexpr int kManyConstants = 64, kTwoVectors = 2, kResident = 32;

template <class T>
constexpr Tuning kTuning<op::Gelu<T>> = {0, kIsF64<T> ? kManyConstants : 0};
template <class T>
constexpr Tuning kTuning<op::GeluBackward<T>> = {0, kIsF64<T> ? kManyConstants : 0};
template <class T>
constexpr Tuning kTuning<op::GeluTanh<T>> = {0, kIsF64<T> ? kManyConstants : 0};
template <class T>
constexpr Tuning kTuning<op::GeluTanhBackward<T>> = {0, kIsF64<T>          ? kManyConstants
                                                        : math::kIsHalf<T> ? kResident
                                                                           : 0};
template <class T>
constexpr Tuning kTuning<op::Mish<T>> = {0, kIsF64<T> ? kManyConstants : 0};
template <class T>
constexpr Tuning kTuning<op::MishBackward<T>> = {0, kIsF64<T> ? kManyConstants : kResident};
template <class T>
constexpr Tuning kTuning<op::SiluBackward<T>> = {0, kIsF64<T> ? kManyConstants : 0};
template <class T>
constexpr Tuning kTuning<op::SoftplusOfOne<T>> = {0, kIsF64<T> ? kManyConstants : 0};
template <class T>
constexpr Tuning kTuning<WithDefaults<op::Softplus<T>>> = kTuning<op::SoftplusOfOne<T>>;

// 38 registers hold the constants of f64 for two vectors.
template <class T>
constexpr Tuning kTuning<op::Sigmoid<T>> = kIsF64<T> ? Tuning{kTwoVectors, 40} : Tuning{};
template <class T>
constexpr Tuning kTuning<op::Silu<T>> = kIsF64<T> ? Tuning{kTwoVectors, 40} : Tuning{};
template <class T>
constexpr Tuning kTuning<op::Tanh<T>> = {kIsF64<T> ? kTwoVectors : 0, 0};
template <class T>
constexpr Tuning kTuning<op::Lgamma<T>> = kIsF64<T> ? Tuning{kTwoVectors, kManyConstants} : Tuning{};

// Of 16 bits, with eight elements a vector, 39 registers are taken.
template <class T>
constexpr Tuning kTuning<op::Sin<T>> = {kIsF64<T> ? 1 : kTwoVectors, math::kIsHalf<T> ? 48 : 0};
template <class T>
constexpr Tuning kTuning<op::Cos<T>> = kTuning<op::Sin<T>>;
template <class T>
constexpr Tuning kTuning<op::Tan<T>> = kTuning<op::Sin<T>>;

// Of f64 in place of 48.
template <class T>
constexpr Tuning kTuning<op::Atan2<T>> = {0, kIsF64<T> ? kResident : 0};

// Of 16 bits 46 registers are taken. Powers of integers are other functors of this name, with the usual numbers.
template <class T>
constexpr Tuning kTuning<op::Pow<T>> = {0, math::kIsHalf<T> ? 48 : 0};

// Divisions of the sixteen bytes of a vector, and of any number rounded down, run side by side.
template <class T>
constexpr Tuning kTuning<op::Div<T>> = {0, sizeof(T) == 1 ? 56 : 0};
template <class T>
constexpr Tuning kTuning<op::FloorDivide<T>> = {0, 56};

// One kernel has all pairs of types of a width.
template <class From, class To>
constexpr Tuning kTuning<CastByCode<From, To>> = {0, 48};

}  // namespace bk
