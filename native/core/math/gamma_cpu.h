// SPDX-License-Identifier: Apache-2.0
// ln |Gamma(x)| of f32 on the CPU, in f64, since summands cancel near its zeros.
#pragma once

#include "core/math/f64_cpu.h"

namespace bk::math::cpu {

// ln Gamma(z) for z >= 0. From 5/2 on Stirling: (z - 1/2) ln z - z + ln(2 pi) / 2 + P(1 / z^2) / z; below (t - 1) (t -
// 2) Q(t - 2) - ln(t (t - 1) ... z) with t = z, z + 1 or z + 2 in [3/2, 5/2]. P and Q are minimax fits.
inline __attribute__((always_inline)) double log_gamma_of_positive(double z) {
    const bool large = z >= 2.5, below = z < 1.5, lowest = z < 0.5;
    const double v = z + pick(below, 1.0, 0.0) + pick(lowest, 1.0, 0.0) - 2.0;
    const double steps = pick(below, z, 1.0) * pick(lowest, z + 1.0, 1.0);
    const double l = log(pick(large, z, steps));
    const double q =
        series(v, 0.4227843350984671, -0.10031730167435118, 0.032965000621163906, -0.012384192193738807, 0.004998641164286444,
               -0.0021081308172654256, 0.0009153769300093182, -0.00040570776097183193, 0.00018255259345808698,
               -8.309077898845365e-05, 3.8168526822931204e-05, -1.7691733907503777e-05, 8.228963810099942e-06,
               -3.7282306583212743e-06, 1.7689650563356993e-06, -1.1000205265428767e-06, 5.045551777541436e-07);
    const double inverse = 1.0 / z;
    const double p = series(inverse * inverse, 0.08333333333333007, -0.002777777775821286, 0.0007936504474672487,
                            -0.0005952095584272306, 0.0008404190275376229, -0.0018782885847099153, 0.005624722734717719,
                            -0.018154804931986134, 0.050036909960779676, -0.09367948422040996, 0.08431185610327731);
    const double far = fma(z - 0.5, l, -z) + fma(inverse, p, 0.9189385332046728);
    const double y = pick(large, far, fma(v * (v + 1.0), q, -l));
    return pick(z == HUGE_VAL, z, y);
}

// Reflection: Gamma(x) Gamma(-x) = -pi / (x sin(pi x)); |sin(pi x)| = pi |r| S(r^2), r the distance to the nearest
// integer.
inline __attribute__((always_inline)) float lgamma(float x) {
    const double given = x, z = size_of(given), y = log_gamma_of_positive(z);
    const double r = size_of(z - __builtin_rint(z)), s = r * r;
    const double sine = series(s, 1.0, -1.6449340668482264, 0.8117424252833394, -0.190751824121497, 0.026147847805564114,
                               -0.0023460808955761856, 0.00014842784194937293, -6.972100966490358e-06, 2.450307417850714e-07);
    const double reflected = -log(z * r * sine) - y;
    return static_cast<float>(pick((given < 0.0) & (z < HUGE_VAL), reflected, y));
}

}  // namespace bk::math::cpu
