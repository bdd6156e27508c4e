// SPDX-License-Identifier: Apache-2.0
// Math functions by storage type: 16-bit floats may take cheaper GPU instructions, whose error their rounding hides. On
// the CPU, f32 and 16-bit functions are ours (core/math/math_cpu.h); most f64 ones are glibc's, declared so that the
// compiler calls libmvec's vector variants in loops. Loops with a branch do not vectorise, hence `select`.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/target.h"
#include "core/types/dtype.h"
#if BK_CUDA
#include "core/math/math_half.h"
#else
#include "core/math/math_cpu.h"
#endif

#if !BK_CUDA && defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define BK_SIMD(name) __attribute__((__simd__("notinbranch"))) double name(double) noexcept
#define BK_SIMD2(name) __attribute__((__simd__("notinbranch"))) double name(double, double) noexcept
extern "C" {
BK_SIMD(exp2);
BK_SIMD(expm1);
BK_SIMD(log2);
BK_SIMD(log10);
BK_SIMD(log1p);
BK_SIMD(sin);
BK_SIMD(cos);
BK_SIMD(tan);
BK_SIMD(asin);
BK_SIMD(acos);
BK_SIMD(atan);
BK_SIMD(sinh);
BK_SIMD(cosh);
BK_SIMD(tanh);
BK_SIMD(asinh);
BK_SIMD(acosh);
BK_SIMD(atanh);
BK_SIMD(erf);
BK_SIMD(erfc);
BK_SIMD(cbrt);
BK_SIMD2(pow);
BK_SIMD2(atan2);
}
#undef BK_SIMD
#undef BK_SIMD2
#endif
#endif

namespace bk::math {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// a if the condition holds, else b; never a branch on the CPU.
template <class C>
BK_HD C select(bool condition, C a, C b) {
#if BK_ON_GPU
    return condition ? a : b;
#else
    if constexpr (std::is_floating_point_v<C>) {
        using Bits = bits_t<C>;
        const Bits mask = static_cast<Bits>(-static_cast<std::make_signed_t<Bits> >(condition));
        return bit_cast<C>(static_cast<Bits>((bit_cast<Bits>(a) & mask) | (bit_cast<Bits>(b) & ~mask)));
    } else {
        return condition ? a : b;
    }
#endif
}

// a() or b() by a condition that is the same for all elements. The CPU computes both, since vector loops must not
// branch.
template <class A, class B>
BK_HD auto either(bool first, const A& a, const B& b) {
#if BK_IN_KERNEL
    return first ? a() : b();
#else
    return select(first, a(), b());
#endif
}

template <class C>
BK_HD bool isnan(C x) {
    return x != x;
}

// Whether a or b is NaN.
template <class C>
BK_HD bool unordered(C a, C b) {
    return (a != a) | (b != b);
}

// The smaller operand; b if a or b is NaN.
template <class C>
BK_HD C min(C a, C b) {
    return select(a < b, a, b);
}

// The larger operand; b if a or b is NaN.
template <class C>
BK_HD C max(C a, C b) {
    return select(a > b, a, b);
}

// Functions taken from the C library for f64 and f32.
#define BK_MATH_OF_C(name, function)                        \
    template <class T>                                      \
    BK_HD compute_t<T> name(compute_t<T> x) {               \
        if constexpr (std::is_same_v<compute_t<T>, double>) \
            return ::function(x);                           \
        else                                                \
            return ::function##f(x);                        \
    }
#define BK_MATH2_OF_C(name, function)                         \
    template <class T>                                        \
    BK_HD compute_t<T> name(compute_t<T> x, compute_t<T> y) { \
        if constexpr (std::is_same_v<compute_t<T>, double>)   \
            return ::function(x, y);                          \
        else                                                  \
            return ::function##f(x, y);                       \
    }

BK_MATH_OF_C(floor, floor)
BK_MATH_OF_C(ceil, ceil)
BK_MATH_OF_C(trunc, trunc)
BK_MATH_OF_C(rint, rint)
BK_MATH_OF_C(fabs, fabs)
BK_MATH2_OF_C(atan2, atan2)
BK_MATH2_OF_C(fmod, fmod)
BK_MATH2_OF_C(copysign, copysign)
BK_MATH2_OF_C(nextafter, nextafter)

// BK_MATH: the CPU has its own f32 version. BK_MATH_HALF: the GPU also has a cheaper 16-bit version.
#if BK_CUDA
#define BK_MATH BK_MATH_OF_C
#define BK_MATH_HALF(name, function)                             \
    template <class T>                                           \
    BK_HD compute_t<T> name(compute_t<T> x) {                    \
        if constexpr (kIsHalf<T>)                                \
            return half::name(x);                                \
        else if constexpr (std::is_same_v<compute_t<T>, double>) \
            return ::function(x);                                \
        else                                                     \
            return ::function##f(x);                             \
    }
BK_MATH_HALF(sqrt, sqrt)
#else
#define BK_MATH(name, function)                             \
    template <class T>                                      \
    BK_HD compute_t<T> name(compute_t<T> x) {               \
        if constexpr (std::is_same_v<compute_t<T>, double>) \
            return ::function(x);                           \
        else                                                \
            return cpu::function(x);                        \
    }
#define BK_MATH_HALF BK_MATH
BK_MATH_OF_C(sqrt, sqrt)
#endif

BK_MATH_HALF(expm1, expm1)
BK_MATH_HALF(log1p, log1p)
BK_MATH_HALF(atanh, atanh)
BK_MATH_HALF(erf, erf)
BK_MATH_HALF(erfc, erfc)
BK_MATH_HALF(log2, log2)
BK_MATH_HALF(log10, log10)
BK_MATH_HALF(asin, asin)
BK_MATH_HALF(acos, acos)
BK_MATH_HALF(sinh, sinh)
BK_MATH_HALF(cosh, cosh)
BK_MATH_HALF(asinh, asinh)
BK_MATH_HALF(acosh, acosh)
BK_MATH(tanh, tanh)
BK_MATH(sin, sin)
BK_MATH(cos, cos)
BK_MATH(tan, tan)
BK_MATH(atan, atan)
BK_MATH(cbrt, cbrt)
#undef BK_MATH
#undef BK_MATH_HALF
#undef BK_MATH_OF_C
#undef BK_MATH2_OF_C

// 1 + tan(x)^2 is a function of its own, since an error of the tangent counts twice.
template <class T>
BK_HD compute_t<T> secant_square(compute_t<T> x) {
#if !BK_CUDA
    if constexpr (!std::is_same_v<T, double>) return cpu::secant_square(x);
#endif
    const compute_t<T> t = tan<T>(x);
    return 1 + t * t;
}

// Large f32 and bf16 angles on the CPU: sin, cos, tan and secant_square do not serve them, since vectors would branch;
// the *_of_any functions take any angle.
template <class T>
constexpr bool kHasRareAngles = !BK_CUDA && (std::is_same_v<T, float> || std::is_same_v<T, bf16>);

#if BK_CUDA
template <class T>
BK_HD bool is_rare_angle(compute_t<T>) {
    return false;
}
#define BK_MATH_OF_ANGLE(name)                         \
    template <class T>                                 \
    BK_HD compute_t<T> name##_of_any(compute_t<T> x) { \
        return name<T>(x);                             \
    }
#else
template <class T>
BK_HD bool is_rare_angle(compute_t<T> x) {
    return cpu::is_large_angle(x);
}
#define BK_MATH_OF_ANGLE(name)                         \
    template <class T>                                 \
    BK_HD compute_t<T> name##_of_any(compute_t<T> x) { \
        return cpu::name##_of_any(x);                  \
    }
#endif
BK_MATH_OF_ANGLE(sin)
BK_MATH_OF_ANGLE(cos)
BK_MATH_OF_ANGLE(tan)
BK_MATH_OF_ANGLE(secant_square)
#undef BK_MATH_OF_ANGLE

// Rounded once.
template <class C>
BK_HD C fma(C a, C b, C c) {
    if constexpr (std::is_same_v<C, double>)
        return ::fma(a, b, c);
    else
        return ::fmaf(a, b, c);
}

// a * b rounded and never contracted, so that fma(a, b, -product(a, b)) is the rounding error.
template <class C>
BK_HD C product(C a, C b) {
#if BK_ON_GPU
    if constexpr (std::is_same_v<C, double>)
        return __dmul_rn(a, b);
    else
        return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

template <class T>
BK_HD compute_t<T> exp2(compute_t<T> x) {
    if constexpr (std::is_same_v<compute_t<T>, double>) {
        return ::exp2(x);
    } else {
#if BK_ON_GPU
        if constexpr (std::is_same_v<T, f16>) {
            float y;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));  // what it flushes to 0 is 0 in f16
            return y;
        }
        if constexpr (kIsHalf<T>) {
            float y;
            asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));  // 2 ulp
            return y;
        }
#endif
#if BK_CUDA
        return ::exp2f(x);
#else
        if constexpr (kIsHalf<T>)
            return cpu::rough_exp2<T>(x);
        else
            return cpu::exp2(x);
#endif
    }
}

template <class T>
BK_HD compute_t<T> exp(compute_t<T> x) {
    if constexpr (kIsHalf<T>) {
        // Rounding the product costs at most 2^-17, at the ends of the range.
        return exp2<T>(x * 1.44269504f);
    } else {
#if !BK_CUDA
        return cpu::exp(x);
#else
        if constexpr (std::is_same_v<T, double>)
            return ::exp(x);
        else
            return ::expf(x);
#endif
    }
}

// exp; 16-bit types may flush subnormal f32 results to 0, which saves GPU instructions.
template <class T>
BK_HD compute_t<T> exp_flushed(compute_t<T> x) {
    if constexpr (kIsHalf<T>)
        return exp2<f16>(x * 1.44269504f);
    else
        return exp<T>(x);
}

// exp_flushed for x <= 0; on the CPU f32 flushes too.
template <class T>
BK_HD compute_t<T> exp_of_negative(compute_t<T> x) {
#if !BK_CUDA
    if constexpr (std::is_same_v<T, float>) return cpu::exp_of_negative(x);
    if constexpr (kIsHalf<T>) return cpu::rough_exp_of_negative(x);
#endif
    return exp_flushed<T>(x);
}

template <class T>
BK_HD compute_t<T> log(compute_t<T> x) {
#if BK_CUDA
    if constexpr (std::is_same_v<compute_t<T>, double>)
        return ::log(x);
    else if constexpr (kIsHalf<T>)
        return half::log(x);
    else
        return ::logf(x);
#else
    return cpu::log(x);
#endif
}

// ln x for |ln x| >= 1/2, where an absolute error is as good as a relative one.
template <class T>
BK_HD compute_t<T> log_far_from_one(compute_t<T> x) {
#if BK_ON_GPU
    if constexpr (kIsHalf<T>) {
        float y;
        asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y * 0.693147181f;
    }
#endif
    return log<T>(x);
}

// 1 / x within 1 ulp, for normal x with a normal reciprocal.
template <class T>
BK_HD compute_t<T> reciprocal(compute_t<T> x) {
#if BK_ON_GPU
    if constexpr (std::is_same_v<compute_t<T>, float>) {
        float y;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    } else {
        double y;
        asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));  // some 20 bits, which a cubic step makes 60
        const double residual = ::fma(-x, y, 1.0);
        return ::fma(y, ::fma(residual, residual, residual), y);
    }
#endif
    return compute_t<T>(1) / x;
}

// 1 / x for any x: 16-bit types within 1 ulp, f32 nearly correctly rounded.
template <class T>
BK_HD compute_t<T> full_reciprocal(compute_t<T> x) {
#if BK_ON_GPU
    if constexpr (std::is_same_v<compute_t<T>, float>) {
        float y;
        asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
        const float residual = ::fmaf(-x, y, 1.0f);  // NaN for 0 and infinity
        return !kIsHalf<T> && ::fabsf(residual) < 0.5f ? ::fmaf(y, residual, y) : y;
    }
#endif
    return compute_t<T>(1) / x;
}

// 1 / x and 1 / sqrt(x) for 16-bit types, relative error 2^-19; 0, infinity and NaN included, other x normal with
// normal results. f64 is used for its range.
template <class C>
BK_HD C rough_reciprocal(C x) {
#if BK_ON_GPU
    C y;
    if constexpr (std::is_same_v<C, double>)
        asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    else
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return C(1) / x;
#endif
}

template <class C>
BK_HD C rough_rsqrt(C x) {
#if BK_ON_GPU
    C y;
    if constexpr (std::is_same_v<C, double>)
        asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    else
        asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return C(1) / sqrt<C>(x);
#endif
}

template <class T>
BK_HD compute_t<T> rsqrt(compute_t<T> x) {
#if BK_ON_GPU
    if constexpr (std::is_same_v<compute_t<T>, double>)
        return ::rsqrt(x);
    else
        return ::rsqrtf(x);
#else
    return compute_t<T>(1) / sqrt<T>(x);
#endif
}

// erfinv in f32, for f32 and 16-bit types.
template <class T>
BK_HD float erfinv(float x) {
#if BK_CUDA
    if constexpr (kIsHalf<T>)
        return half::erfinv(x);
    else
        return ::erfinvf(x);
#else
    return cpu::erfinv(x);
#endif
}

// ln |Gamma(x)| without the C library's lgamma, which writes the global signgam; lgamma_r does not.
template <class T>
BK_HD compute_t<T> lgamma(compute_t<T> x) {
#if BK_CUDA
    if constexpr (std::is_same_v<compute_t<T>, double>)
        return ::lgamma(x);
    else
        return ::lgammaf(x);
#else
    if constexpr (std::is_same_v<compute_t<T>, double>) {
        int sign;
        return ::lgamma_r(x, &sign);
    } else {
        return cpu::lgamma(x);
    }
#endif
}

}  // namespace bk::math
