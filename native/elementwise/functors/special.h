// SPDX-License-Identifier: Apache-2.0
// erf, erfc, erfinv, lgamma, digamma and their gradients.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "elementwise/tune.h"

namespace bk::op {

// Horner's rule, coefficients from the highest power down; recursive, since GCC does not unroll loops of over 16 steps.
template <class C>
BK_HD C horner(C, C last) {
    return last;
}

template <class C, class... Rest>
BK_HD C horner(C x, C first, C second, Rest... rest) {
    return horner<C>(x, first * x + second, rest...);
}

// factor e^(x^2) dy for kSign = 1, factor e^(-x^2) dy for -1. The rounding error of x^2, at most 2^-17, would be many
// ulp of the power and is corrected to first order. If the power would leave the range but not the product, it is taken
// of x^2 - 2 k ln 2 and the product is scaled by 2^k twice; the difference is exact since 2 k ln 2 has few bits.
template <class T, int kSign>
BK_HD compute_t<T> times_exp_square(compute_t<T> dy, compute_t<T> x, double factor) {
    using C = compute_t<T>;
    constexpr bool kDouble = sizeof(C) == 8;
    constexpr C kMost = kDouble ? C(40) : C(16);  // above this the product is 0 or infinite for every dy
    constexpr C kShift = kDouble ? C(0x1.7d3b1f7e6cc3cp+9) : C(0x1.9fe368p+6);  // 1100 ln 2 and 150 ln 2
    constexpr C kShiftLow = kDouble ? C(-4.2444621076449e-15) : C(6.679761714125848e-07);
    constexpr C kPower = kDouble ? (kSign > 0 ? C(0x1p550) : C(0x1p-550)) : (kSign > 0 ? C(0x1p75) : C(0x1p-75));
    const C size = math::fabs<T>(x);
    const C most = math::select(size > kMost, kMost, size);
    const C square = math::product(most, most);
    const bool large = square > (kDouble ? C(600) : C(80));
    const C lost = math::fma(most, most, -square) - math::select(large, kShiftLow, C(0));
    const C power = math::exp<T>(C(kSign) * (square - math::select(large, kShift, C(0))));
    const C first = C(factor), second = static_cast<C>(factor - double{first}) + first * (C(kSign) * lost);
    const C product = power * first;
    const C corrected = math::fma(power, first, power * second);
    const C scaled_product = math::select(math::fabs<T>(product) < C(INFINITY), corrected, product);
    const C scale = math::select(large, kPower, C(1));
    return dy * scale * scaled_product * scale;
}

template <class T>
struct Erf {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::erf<T>(x); }
};

template <class T>
struct ErfBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return times_exp_square<T, -1>(dy, x, 1.1283791670955126); }
};

template <class T>
struct Erfc {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::erfc<T>(x); }
};

template <class T>
struct ErfcBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return times_exp_square<T, -1>(dy, x, -1.1283791670955126); }
};

// f64: erfinv(x) / x as polynomials in w = -ln(1 - x^2) for small w and in sqrt(w) for large w (Giles 2010,
// "Approximating the erfinv function"); minimax coefficients, relative error 5e-17.
template <class T>
struct Erfinv {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        if constexpr (std::is_same_v<T, double>)
            return of_f64(x);
        else
            return math::erfinv<T>(x);
    }

private:
    static BK_HD C of_f64(C x) {
        const C w = -math::log<T>((C(1) - x) * (C(1) + x));
        const C root = math::sqrt<T>(w);
        constexpr C kRatioAtZero = C(0.8862269254527580);
        const C inner = horner(w - 3.125, 4.078450498289933e-21, -1.2981394777012652e-20, -3.563210018217383e-19,
                               2.2162802898429353e-18, 9.791094496865778e-18, -1.5966740576401286e-16, 4.4282370166185234e-16,
                               5.1981312382359505e-15, -5.6118449388664725e-14, 9.430420977519231e-14, 2.3349989907675713e-12,
                               -2.0274377048163627e-11, 9.217471400839807e-12, 1.022415645884554e-09, -7.307716672125382e-09,
                               -6.233772059799611e-09, 4.429593652073149e-07, -2.7497171959320657e-06, -5.289657165324322e-06,
                               0.00020326438666288122, -0.0013759037424729184, -0.0017339716761991413, 0.2455768439137103);
        const C outer =
            horner(root - 3.25, -1.5123114002891555e-08, 8.097560513540307e-10, 1.3109262243607165e-07, -2.716157506003206e-07,
                   -2.705327945475755e-08, 1.4989826481970528e-06, -3.986058055002471e-06, 2.9255849487806175e-06,
                   1.2465158946850578e-05, -4.731893933321091e-05, 6.828708804419463e-05, 2.403124888689858e-05,
                   -0.00035503780991212174, 0.0009532893645674354, -0.0016882755357259705, 0.0024914420969402115,
                   -0.003751208508215711, 0.00537091455357248, 1.0052589676941652, 3.0838856104922208);
        const C tail = horner(root - 5.0, -1.9807811941082398e-11, 4.2955766355665786e-11, 6.696394464876485e-11,
                              -4.378125141416487e-10, 1.3208512438577882e-09, -3.4711124276889487e-09, 7.816536552435946e-09,
                              -1.5255063158951123e-08, 2.9021530147552546e-08, -6.755629817718094e-08, 2.290518244111222e-07,
                              -9.930293313131765e-07, 4.526052717686239e-06, -1.9681770710659663e-05, 7.599527807836001e-05,
                              -0.00021503011982710959, -0.0001387193183794682, 1.0103004648645453, 4.849906401408584);
        C value = math::select(w < 6.25, math::fma(x * w, inner, x * kRatioAtZero), x * math::select(w < 16.0, outer, tail));
        const C size = math::fabs<T>(x);
        value = math::select(size == C(1), C(INFINITY), math::select(size > C(1), C(NAN), value));
        return math::copysign<T>(value, x);
    }
};

template <class T>
struct ErfinvBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const { return times_exp_square<T, 1>(dy, y, 0.8862269254527580); }
};

// --- The Gamma function ---------------------------------------------------------------------------------------
//
// Evaluated in f64 where that is cheap: near zeros at irrational arguments, other than psi's positive zero, the
// summands of an f32 evaluation cancel. Its error remains within a few roundings of the summands.
template <class T>
constexpr bool kGammaInF64 = std::is_same_v<T, double> || (std::is_same_v<T, float> && kDoubleIsCheap);

// psi(z) for z >= 0 (and -0). From 10 on the asymptotic series (Abramowitz and Stegun 6.3.18); in [1, 2] a minimax
// polynomial for psi(z) / (z - z0), z0 = 1.46... as three constants; elsewhere psi(z + 1) = psi(z) + 1 / z (6.3.5),
// with the sum of reciprocals accumulated as one fraction.
BK_HD double digamma_positive(double z) {
    double t = z, numerator = 0, denominator = 1;
#define BK_STEP_DOWN(j)                                                                         \
    {                                                                                           \
        const bool above = z - (j) >= 1.0;                                                      \
        numerator = math::select(above, math::fma(numerator, z - (j), denominator), numerator); \
        denominator = math::select(above, denominator * (z - (j)), denominator);                \
        t = math::select(above, z - (j), t);                                                    \
    }
    BK_STEP_DOWN(1.0)
    BK_STEP_DOWN(2.0)
    BK_STEP_DOWN(3.0)
    BK_STEP_DOWN(4.0)
    BK_STEP_DOWN(5.0)
    BK_STEP_DOWN(6.0)
    BK_STEP_DOWN(7.0)
    BK_STEP_DOWN(8.0)
#undef BK_STEP_DOWN
    const bool below = z < 1.0;
    t = math::select(below, z + 1.0, t);
    const double sum = math::select(below, -1.0, numerator) / math::select(below, z, denominator);
    const double ratio =
        horner(t - 1.5, 0.00011881232908510335, -0.0001782188548855923, 9.653646261410062e-05, -0.00014480643368061614,
               0.00032395945401345196, -0.00048595039220036254, 0.0006909255761282986, -0.0010364584817312839,
               0.0015633696313653504, -0.0023454947397380833, 0.003518106563802472, -0.005279937255532708, 0.007927021796868154,
               -0.011908220105959716, 0.017907248317313294, -0.026975796659787055, 0.040760833940846085, -0.06192213327548831,
               0.09498872445289039, -0.14840492305388092, 0.24054248424078697, -0.4236274212814606, 0.9510558760318328);
    const double near = (((t - 0x1.762d8634p+0) - 0x1.6be3f6e1a9c88p-32) - 0x1.978293c1ac54dp-86) * ratio + sum;
    const double inverse = 1.0 / z, w = inverse * inverse;
    const double series = horner(w, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12) * w;
    const double far = math::log<double>(z) - (0.5 * inverse + series);
    return math::select(z >= 10.0, far, near);
}

// psi(x) = psi(1 - x) - pi cot(pi x) for x < 0 (6.3.7). With r the distance to the nearest integer, pi cot(pi r) = (1/4
// - r^2) / r (4 + r^2 P(r^2)), which preserves zeros and poles.
BK_HD double digamma(double x) {
    const bool negative = x < 0.0;
    const double positive = digamma_positive(math::select(negative, 1.0 - x, x));
    const double r = x - math::rint<double>(x);
    const double ratio = 4.0 + r * r *
                                   horner(r * r - 0.125, 21.34725540392217, 18.678848480840372, 15.093176683744646,
                                          13.206529634300866, 11.585029563666197, 10.136901409193724, 8.869440920922525,
                                          7.760768933408113, 6.790706574952228, 5.941990642743371, 5.199718271009269,
                                          4.551620141053327, 3.990095470530939, 3.5221253800831036, 3.226226985337332);
    const double reflected = positive - (0.5 - r) * (0.5 + r) * ratio / r;
    return math::select(negative, math::select(r == 0.0, double(NAN), reflected), positive);
}

// psi'(z) for z > 0: eleven steps of psi'(z) = psi'(z + 1) + 1 / z^2 (6.4.6), all positive, then the asymptotic series
// (6.4.12). After the first, summands are added in pairs: 1 / a^2 + 1 / b^2 = (a^2 + b^2) / (a b)^2.
BK_HD double trigamma_positive(double z) {
    const bool small = z < 10.0;
    const double square = z * z, first = 1.0 / square;
    const double corrected = math::fma(-first * math::fma(z, z, -square), first, first);
    const auto two = [](double a, double b) { return (a * a + b * b) / ((a * b) * (a * b)); };
    const double sum =
        two(z + 9.0, z + 10.0) + two(z + 7.0, z + 8.0) + two(z + 5.0, z + 6.0) + two(z + 3.0, z + 4.0) + two(z + 1.0, z + 2.0);
    const double inverse = 1.0 / math::select(small, z + 11.0, z), w = inverse * inverse;
    const double series = horner(w, -3617.0 / 510, 7.0 / 6, -691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6);
    const double far = inverse + (0.5 * w + series * w * inverse);
    return math::select(small, corrected + (sum + far), far);
}

// psi'(x) = (pi / sin(pi x))^2 - psi'(1 - x) for x < 0 (6.4.7); the first summand is 1 / r^2 plus a polynomial in r^2.
BK_HD double trigamma(double x) {
    const bool negative = x < 0.0;
    const double positive = trigamma_positive(math::select(negative, 1.0 - x, x));
    const double r = x - math::rint<double>(x);
    const double series = horner(r * r - 0.125, 661.1989148278246, 541.7651150125856, 400.53360011709077, 324.6031963125379,
                                 262.44632417394473, 209.78027287042926, 166.1661670420408, 130.19078084278863,
                                 100.61333455141359, 76.3970482963621, 56.66639232838053, 40.68611001588804, 27.849656027472687,
                                 17.682674446007688, 9.869565661614201, 4.2932119550395695);
    return math::select(negative, 1.0 / (r * r) + (series - positive), positive);
}

// psi(x) in f32 with z = x for x >= 0, else 1 - x. psi(z) is z - z0 times a minimax polynomial in [1, 2), ln z minus a
// polynomial in 1 / z from 2 on, and psi(z + 1) - 1 / z below 1.
template <class T>
BK_HD float digamma_f32(float x) {
    const bool negative = x < 0.0f;
    const float z = math::select(negative, 1.0f - x, x);
    const bool below = z < 1.0f;
    const float inverse = math::full_reciprocal<T>(z), w = inverse * inverse;
    const float t = math::select(below, z + 1.0f, z);
    const float ratio = horner(t - 1.5f, 0.0111166615f, -0.0163837801f, 0.0169816715f, -0.0257812056f, 0.0408790558f,
                               -0.0620570347f, 0.0949821094f, -0.148398789f, 0.240542615f, -0.423627499f, 0.951055876f);
    const float distance = (t - 0x1.762d86p+0f) - 1.24381499e-8f;
    const float near = math::fma(distance, ratio, math::select(below, -inverse, 0.0f));
    const float series = horner(w, -0.00182888832f, 0.00356146631f, -0.0083001343f, 0.0833323922f);
    const float far = math::log_far_from_one<T>(z) - math::fma(w, series, 0.5f * inverse);
    const float positive = math::select(z < 2.0f, near, far);
    const float r = x - math::rint<float>(x), s = r * r;
    const float cotangent = horner(s, 6.97527159f, 0.933543466f, 2.98256513f, 2.64763651f, 2.70462897f, 2.84051296f) * s + 4.0f;
    const float reflected = positive - (0.5f - r) * (0.5f + r) * cotangent * math::full_reciprocal<T>(r);
    return math::select(negative, math::select(r == 0.0f, NAN, reflected), positive);
}

// psi'(x) in f32 with z = x for x >= 0, else 1 - x: a minimax polynomial in 1 / z from 1 on, psi'(z + 1) + 1 / z^2
// below.
template <class T>
BK_HD float trigamma_f32(float x) {
    const bool negative = x < 0.0f;
    const float z = math::select(negative, 1.0f - x, x);
    const bool below = z < 1.0f;
    const float r = x - math::rint<float>(x), s = r * r;
    const float pole = math::full_reciprocal<T>(math::select(negative, r, z));
    const float inverse = math::full_reciprocal<T>(math::select(below, z + 1.0f, z)), w = inverse * inverse;
    const float series = horner(inverse, -0.00314244115f, 0.0166547497f, -0.0361057789f, 0.0360660034f, -0.00192101599f,
                                -0.0333109215f, 2.9121236e-05f, 0.166664345f);
    const float smooth = math::fma(w, math::fma(inverse, series, 0.5f), inverse);
    const float sine = horner(s, 90.9738622f, -9.59188348f, 25.1401001f, 13.21462f, 10.2253349f, 6.49245196f, 3.28988231f);
    const float reflected = math::fma(pole, pole, sine - smooth);
    return math::select(negative, reflected, math::select(below, math::fma(pole, pole, smooth), smooth));
}

template <class T>
struct Lgamma {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::lgamma<T>(x); }
};

// Near 0 psi(x) is -1 / x, which may overflow although the product does not.
template <class T>
struct LgammaBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        if constexpr (kGammaInF64<T>) {
            const double g = dy, z = x;
            return static_cast<C>(math::select(math::fabs<double>(z) < 0x1p-500, -g / z, g * digamma(z)));
        } else {
            const C pole = -(dy * C(0x1p64)) * math::reciprocal<T>(x * C(0x1p64));
            return math::select(math::fabs<T>(x) < C(0x1p-60), pole, dy * digamma_f32<T>(x));
        }
    }
};

template <class T>
struct Digamma {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        if constexpr (kGammaInF64<T>)
            return static_cast<C>(digamma(x));
        else
            return digamma_f32<T>(x);
    }
};

// psi'(x) is 1 / x^2 near 0.
template <class T>
struct DigammaBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        if constexpr (kGammaInF64<T>) {
            const double g = dy, z = x;
            return static_cast<C>(math::select(math::fabs<double>(z) < 0x1p-500, g / z / z, g * trigamma(z)));
        } else {
            const C inverse = math::reciprocal<T>(x * C(0x1p64));
            const C pole = dy * C(0x1p64) * inverse * inverse * C(0x1p64);
            return math::select(math::fabs<T>(x) < C(0x1p-60), pole, dy * trigamma_f32<T>(x));
        }
    }
};

}  // namespace bk::op
