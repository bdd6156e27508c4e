// SPDX-License-Identifier: Apache-2.0
// Elementwise functors that override the pointwise kernels' {vectors, registers}; 0 keeps the default. All were
// measured faster so on an H200; register counts are those of nvcc 13 for sm_90.
//
// kManyConstants: lanes of f64 functions with long polynomials share more constants than 32 registers hold; functions
// other than gradients take 40 to 56. kTwoVectors replaces one in f64 and three otherwise. kResident: full occupancy,
// to hide memory latency, in place of the 40 or 48 registers of three operands.
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

// 38 registers hold the f64 constants for two vectors.
template <class T>
constexpr Tuning kTuning<op::Sigmoid<T>> = kIsF64<T> ? Tuning{kTwoVectors, 40} : Tuning{};
template <class T>
constexpr Tuning kTuning<op::Silu<T>> = kIsF64<T> ? Tuning{kTwoVectors, 40} : Tuning{};
template <class T>
constexpr Tuning kTuning<op::Tanh<T>> = {kIsF64<T> ? kTwoVectors : 0, 0};
template <class T>
constexpr Tuning kTuning<op::Lgamma<T>> = kIsF64<T> ? Tuning{kTwoVectors, kManyConstants} : Tuning{};

// 16-bit types take 39 registers with eight elements a vector.
template <class T>
constexpr Tuning kTuning<op::Sin<T>> = {kIsF64<T> ? 1 : kTwoVectors, math::kIsHalf<T> ? 48 : 0};
template <class T>
constexpr Tuning kTuning<op::Cos<T>> = kTuning<op::Sin<T>>;
template <class T>
constexpr Tuning kTuning<op::Tan<T>> = kTuning<op::Sin<T>>;

// f64: in place of 48.
template <class T>
constexpr Tuning kTuning<op::Atan2<T>> = {0, kIsF64<T> ? kResident : 0};

// 16-bit types take 46 registers. Powi is another functor and keeps the defaults.
template <class T>
constexpr Tuning kTuning<op::Pow<T>> = {0, math::kIsHalf<T> ? 48 : 0};

// The divisions of a vector's 16 bytes, and all floored ones, run in parallel.
template <class T>
constexpr Tuning kTuning<op::Div<T>> = {0, sizeof(T) == 1 ? 56 : 0};
template <class T>
constexpr Tuning kTuning<op::FloorDivide<T>> = {0, 56};

// One kernel serves all pairs of types of a width.
template <class From, class To>
constexpr Tuning kTuning<CastByCode<From, To>> = {0, 48};

}  // namespace bk
