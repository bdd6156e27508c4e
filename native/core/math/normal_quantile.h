// SPDX-License-Identifier: Apache-2.0
// Quantile of the standard normal distribution, with the same bits on every target.
//
// z(x) for the probability (1 + x) / 2 is x P(w), w = -ln(1 - x^2) = -ln(4 t (1 - t)), where t is the smaller tail: the
// form of Giles, "Approximating the erfinv function" (2010). P is a polynomial in w near the centre, or in w / ln 2 in f32,
// and in sqrt(w) beyond it. x and t come separately, so that both are precise near their zeros. tools/fit has the polynomials.
#pragma once

#include "core/math/portable.h"
#include "core/platform.h"

namespace bk::math {

namespace quantile {

using portable::series;

constexpr float kMiddle = 3.611328125f;  // of w / ln 2 near the centre, in f32
constexpr double kCentreLimit = 6.25;    // of w, in f64

// from_middle = w / ln 2 - kMiddle
BK_HD float centre(float from_middle) {
    return series(from_middle, 2.12442327f, 0.241745055f, -0.00284648314f, -0.000588692783f, 7.12485271e-05f, -1.13821341e-06f,
                  -5.41040663e-07f, 5.07697671e-08f, 1.71678738e-09f, -4.60135818e-10f);
}

BK_HD double centre(double w) {
    return series(w - 3.125, 2.3386207100265932, 0.3396349587011388, -0.00853289917726862, -0.0010475115694846449,
                  0.00026408204954690159, -1.9632852866287966e-05, -1.9310650396295627e-06, 5.9888948931540096e-07,
                  -4.1111729584096789e-08, -5.8161823455943194e-09, 1.4866473162718274e-09, -7.6568902416153041e-11,
                  -1.8352190467403569e-11, 3.7198831485125555e-12, -1.1479182447762434e-13, -5.6554091039888927e-14,
                  9.3263123615583863e-15, -6.0620922080625057e-17, -1.8390286703358026e-16, 2.2287693888669757e-17,
                  1.6184353813460995e-18, -5.0565253968088838e-19, -1.4269176685407312e-21, 4.7740534630786637e-21);
}

// sqrt(w) <= 4.65 in f32 and 6 in f64, which every number of a stream has.
BK_HD float tail(float w) {
    const float s = portable::sqrt(w);
    return series(s - 3.4375f, 4.62806845f, 1.42401958f, 0.00521654775f, -0.00334765087f, 0.0019004636f, -0.00119783671f,
                  0.000736625225f, -0.000419774849f, 0.000128481493f, 5.01916365e-05f, -3.63234067e-05f);
}

BK_HD double tail(double w) {
    const double s = portable::sqrt(w);
    const double below_4 =
        series(s - 3.25, 4.3612728551653301, 1.4216508658102662, 0.0075956202040070109, -0.0053050099476747558,
               0.0035234312034707819, -0.0023875821575626423, 0.0013481547461246166, -0.00050209931550061152,
               3.3985338257461436e-05, 9.6572753316199577e-05, -6.6919193624510049e-05, 1.7627370655764839e-05,
               4.1377402824711142e-06, -5.6343367741028969e-06, 2.1192639799671973e-06, -4.2801511190547739e-08,
               -3.8351571395992682e-07, 1.8942221253908712e-07, 8.9698227008146449e-10, -2.2892230590621434e-08);
    const double below_6 =
        series(s - 5.0, 6.8588034091121122, 1.4287806194832839, -0.00019617874138207526, -0.00030409851183952502,
               0.00010747355203825382, -2.783422621500861e-05, 6.4008144057776129e-06, -1.4043609067054005e-06,
               3.2388026093070149e-07, -9.5521236569804935e-08, 4.1181764731039311e-08, -2.1607443643011157e-08,
               1.0817253382670768e-08, -4.8729247562109502e-09, 2.1031200365501236e-09, -6.3963656757706101e-10,
               -3.1059224167814537e-11, 6.5548257160032931e-11);
    return portable::pick(s < 4.0, below_4, below_6);
}

// sqrt(w) <= 8.7: tails of 1e-33.
BK_HD float far_limit(float) { return 21.6f; }
BK_HD double far_limit(double) { return 36.0; }

BK_HD float far_tail(float w) {
    const float s = portable::sqrt(w);
    return series(s - 6.6875f, 9.26844883f, 1.42682409f, -0.000725353602f, -4.06031722e-06f, 1.11908357e-05f, -3.45360604e-06f,
                  1.03147522e-06f, -1.06049903e-07f);
}

BK_HD double far_tail(double w) {
    const double s = portable::sqrt(w);
    return series(s - 7.375, 10.249048022938849, 1.425831201725335, -0.00070886664907004017, 1.8931813286199249e-05,
                  5.0808127121925832e-06, -1.4834228710785881e-06, 2.8513325668106544e-07, -4.7517387885915666e-08,
                  7.357220567207429e-09, -1.0878963887244511e-09, 1.5571259476958414e-10, -2.1741454822248567e-11,
                  2.9758804613285732e-12, -3.9611515728868577e-13, 5.116613388071159e-14, -7.7703053172565673e-15,
                  1.1624690799310702e-15);
}

// b() where the condition holds, else a. A kernel branches; vector loops compute both.
template <class C, class B>
BK_HD C unless(bool condition, C a, const B& b) {
#if BK_ON_GPU
    return condition ? b() : a;
#else
    return portable::pick(condition, b(), a);
#endif
}

}  // namespace quantile

// z with the tail t = (1 - |x|) / 2 beyond it and the sign of x; t >= 2^-33 in f32 and 2^-53 in f64, or with `reaches_far`
// 1e-33.
template <bool reaches_far = false>
BK_HD float normal_quantile(float x, float t) {
    // w / ln 2 = -2 - log2(t - t^2)
    const float from_middle = portable::below_log2(-2.0f - quantile::kMiddle, portable::fma(-t, t, t));
    const float p = quantile::unless(from_middle > quantile::kMiddle, quantile::centre(from_middle), [&] {
        const float w = portable::fma(from_middle, 0.693147182f, 0.693147182f * quantile::kMiddle), near = quantile::tail(w);
        if constexpr (!reaches_far) return near;
        return quantile::unless(w > quantile::far_limit(w), near, [&] { return quantile::far_tail(w); });
    });
    return x * p;
}

template <bool reaches_far = false>
BK_HD double normal_quantile(double x, double t) {
    const double w = -portable::log(4.0 * t * (1.0 - t));
    double p = quantile::unless(w > quantile::kCentreLimit, quantile::centre(w), [&] { return quantile::tail(w); });
    if constexpr (reaches_far) p = quantile::unless(w > quantile::far_limit(w), p, [&] { return quantile::far_tail(w); });
    return x * p;
}

}  // namespace bk::math
