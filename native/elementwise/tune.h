// Elementwise functors whose GPU kernels depart from the usual vectors and registers: {vectors, registers}, 0 as usual. All
// were measured on an H200, each against the usual numbers, where the kernel should move memory at the speed of a copy.
//
// Three reasons recur. kManyConstants: f64 functions of long polynomials share their constants among the elements of a
// vector, more of them than the usual registers hold, so that they spill. kTwoVectors: two vectors a thread hide the latency
// of dependent steps better than the usual one of f64 or three of f32. kResident: the usual registers of three operands keep
// threads away that the latency of memory needs, while the function does without them.
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

// Of sigmoid and silu 40 registers hold the constants of f64 for two vectors.
template <class T>
constexpr Tuning kTuning<op::Sigmoid<T>> = kIsF64<T> ? Tuning{kTwoVectors, 40} : Tuning{};
template <class T>
constexpr Tuning kTuning<op::Silu<T>> = kIsF64<T> ? Tuning{kTwoVectors, 40} : Tuning{};
template <class T>
constexpr Tuning kTuning<op::Tanh<T>> = {kIsF64<T> ? kTwoVectors : 0, 0};
template <class T>
constexpr Tuning kTuning<op::Lgamma<T>> = kIsF64<T> ? Tuning{kTwoVectors, kManyConstants} : Tuning{};

// The reduction of large angles is a branch with state of its own: one vector less than usual, and of the 16-bit types, with
// eight elements a vector, 16 registers more.
template <class T>
constexpr Tuning kTuning<op::Sin<T>> = {kIsF64<T> ? 1 : kTwoVectors, math::kIsHalf<T> ? 48 : 0};
template <class T>
constexpr Tuning kTuning<op::Cos<T>> = kTuning<op::Sin<T>>;
template <class T>
constexpr Tuning kTuning<op::Tan<T>> = kTuning<op::Sin<T>>;

// f64 has eight registers more than others of three operands, which it does not need here.
template <class T>
constexpr Tuning kTuning<op::Atan2<T>> = {0, kIsF64<T> ? kResident : 0};

// Of eight elements a vector the powers of 16-bit floats keep logarithms and signs; integers have powers of their own.
template <class T>
constexpr Tuning kTuning<op::Pow<T>> = {0, math::kIsHalf<T> ? 48 : 0};

// Divisions of integers are long sequences: of the sixteen bytes of a vector they run side by side.
template <class T>
constexpr Tuning kTuning<op::Div<T>> = {0, sizeof(T) == 1 ? 56 : 0};
template <class T>
constexpr Tuning kTuning<op::FloorDivide<T>> = {0, 56};

// Every pair of types in one kernel.
template <class From, class To>
constexpr Tuning kTuning<CastByCode<From, To>> = {0, 48};

}  // namespace bk
