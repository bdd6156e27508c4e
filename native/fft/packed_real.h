// SPDX-License-Identifier: Apache-2.0
// Real fibers of an even length n as complex ones of half the length h, z[j] = x[2 j] + i x[2 j + 1] (Cooley, Lewis and Welch
// 1970). With w = exp(-2 pi i / n), the transforms X of x and Z of z are
//     X[k] = E + w^k O,  X[h - k] = conj(E - w^k O)   where  E = (Z[k] + conj(Z[h - k])) / 2,
//                                                          i O = (Z[k] - conj(Z[h - k])) / 2
// and the way back gives Z[k] = E + i O from 2 E = X[k] + conj(X[h - k]) and 2 O = (X[k] - conj(X[h - k])) / w^k.
#pragma once

#include "core/platform.h"
#include "fft/butterflies.h"

namespace bk {

// a = Z[k] and b = Z[h - k] become X[k] and X[h - k]; c and s are cos and sin of 2 pi k / n. V is a real number or a vector.
template <class V, class S>
BK_HD void unpack_pair(FftValue<V>& a, FftValue<V>& b, const S& c, const S& s) {
    const V e_re = (a.re + b.re) / 2, e_im = (a.im - b.im) / 2;
    const V o_re = (a.im + b.im) / 2, o_im = (b.re - a.re) / 2;
    const V p_re = o_re * c + o_im * s, p_im = o_im * c - o_re * s;
    a = FftValue<V>{e_re + p_re, e_im + p_im};
    b = FftValue<V>{e_re - p_re, p_im - e_im};
}

// a = X[k] and b = X[h - k] become 2 Z[k] and 2 Z[h - k].
template <class V, class S>
BK_HD void pack_pair(FftValue<V>& a, FftValue<V>& b, const S& c, const S& s) {
    const V e_re = a.re + b.re, e_im = a.im - b.im;
    const V d_re = a.re - b.re, d_im = a.im + b.im;
    const V o_re = d_re * c - d_im * s, o_im = d_im * c + d_re * s;
    a = FftValue<V>{e_re - o_im, e_im + o_re};
    b = FftValue<V>{e_re + o_im, o_re - e_im};
}

}  // namespace bk
