// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms of few values, X[k] = sum over t of a[t] exp(-2 pi i k t / r), in position and in registers.
//
// V is a real number or a vector of them, of lanes that transform independently. Even radices are those of Cooley and Tukey;
// odd ones combine a[t] and a[r - t] in a sum and a difference, which halves the products (Singleton 1969).
#pragma once

#include "core/platform.h"

namespace bk {

template <class V>
struct FftValue {
    V re, im;
};

template <class V>
BK_HD FftValue<V> operator+(const FftValue<V>& a, const FftValue<V>& b) {
    return {a.re + b.re, a.im + b.im};
}
template <class V>
BK_HD FftValue<V> operator-(const FftValue<V>& a, const FftValue<V>& b) {
    return {a.re - b.re, a.im - b.im};
}
// The product with c - i s, where c and s are real numbers or vectors.
template <class V, class S>
BK_HD FftValue<V> rotated(const FftValue<V>& a, const S& c, const S& s) {
    return {a.re * c + a.im * s, a.im * c - a.re * s};
}
template <class V>
BK_HD FftValue<V> times_minus_i(const FftValue<V>& a) {
    return {a.im, -a.re};
}

// cos and sin of 2 pi k / r, k = 1 ... (r - 1) / 2.
template <int r>
struct OddRoots;
template <>
struct OddRoots<3> {
    static BK_HD double cosine(int) { return -0.5; }
    static BK_HD double sine(int) { return 0.86602540378443864676; }
};
template <>
struct OddRoots<5> {
    static BK_HD double cosine(int k) { return k == 1 ? 0.30901699437494742410 : -0.80901699437494742410; }
    static BK_HD double sine(int k) { return k == 1 ? 0.95105651629515357212 : 0.58778525229247312917; }
};
template <>
struct OddRoots<7> {
    static BK_HD double cosine(int k) {
        return k == 1 ? 0.62348980185873353053 : k == 2 ? -0.22252093395631440429 : -0.90096886790241912624;
    }
    static BK_HD double sine(int k) {
        return k == 1 ? 0.78183148246802980871 : k == 2 ? 0.97492791218182360702 : 0.43388373911755812048;
    }
};
template <>
struct OddRoots<11> {
    static BK_HD double cosine(int k) {
        return k == 1   ? 0.84125353283118116886
               : k == 2 ? 0.41541501300188642553
               : k == 3 ? -0.14231483827328514044
               : k == 4 ? -0.65486073394528506406
                        : -0.95949297361449738989;
    }
    static BK_HD double sine(int k) {
        return k == 1   ? 0.54064081745559758211
               : k == 2 ? 0.90963199535451837141
               : k == 3 ? 0.98982144188093273237
               : k == 4 ? 0.75574957435425828377
                        : 0.28173255684142969771;
    }
};
template <>
struct OddRoots<13> {
    static BK_HD double cosine(int k) {
        return k == 1   ? 0.88545602565320989590
               : k == 2 ? 0.56806474673115580251
               : k == 3 ? 0.12053668025532305335
               : k == 4 ? -0.35460488704253562597
               : k == 5 ? -0.74851074817110109863
                        : -0.97094181742605202716;
    }
    static BK_HD double sine(int k) {
        return k == 1   ? 0.46472317204376854566
               : k == 2 ? 0.82298386589365639458
               : k == 3 ? 0.99270887409805399280
               : k == 4 ? 0.93501624268541482344
               : k == 5 ? 0.66312265824079520238
                        : 0.23931566428755776715;
    }
};

// R is the real type of the lanes of V.
template <int r, class R, class V>
struct Butterfly {
    static_assert(r % 2 == 1, "an even radix has a specialization");
    static BK_HD void apply(FftValue<V> (&a)[r]) {
        constexpr int h = (r - 1) / 2;
        FftValue<V> sum[h], difference[h], total = a[0];
        BK_UNROLL
        for (int t = 0; t < h; ++t) {
            sum[t] = a[t + 1] + a[r - 1 - t];
            difference[t] = a[t + 1] - a[r - 1 - t];
            total = total + sum[t];
        }
        FftValue<V> even[h], odd[h];
        BK_UNROLL
        for (int k = 1; k <= h; ++k) {
            even[k - 1] = a[0];
            odd[k - 1] = FftValue<V>{a[0].re - a[0].re, a[0].re - a[0].re};
            BK_UNROLL
            for (int t = 1; t <= h; ++t) {
                const int angle = k * t % r, folded = angle <= h ? angle : r - angle;
                const R c = static_cast<R>(OddRoots<r>::cosine(folded));
                const R s = static_cast<R>(angle <= h ? OddRoots<r>::sine(folded) : -OddRoots<r>::sine(folded));
                even[k - 1].re = even[k - 1].re + sum[t - 1].re * c;
                even[k - 1].im = even[k - 1].im + sum[t - 1].im * c;
                if (t == 1) {
                    odd[k - 1].re = difference[0].im * s;
                    odd[k - 1].im = -difference[0].re * s;
                } else {
                    odd[k - 1].re = odd[k - 1].re + difference[t - 1].im * s;
                    odd[k - 1].im = odd[k - 1].im - difference[t - 1].re * s;
                }
            }
        }
        a[0] = total;
        BK_UNROLL
        for (int k = 1; k <= h; ++k) {
            a[k] = even[k - 1] + odd[k - 1];
            a[r - k] = even[k - 1] - odd[k - 1];
        }
    }
};

template <class R, class V>
struct Butterfly<2, R, V> {
    static BK_HD void apply(FftValue<V> (&a)[2]) {
        const FftValue<V> b = a[1];
        a[1] = a[0] - b;
        a[0] = a[0] + b;
    }
};

// X[k] of even and odd positions, without copies: the outputs are a0, a1, a2, a3.
template <class V>
BK_HD void butterfly4(FftValue<V>& a0, FftValue<V>& a1, FftValue<V>& a2, FftValue<V>& a3) {
    const FftValue<V> s02 = a0 + a2, d02 = a0 - a2, s13 = a1 + a3, d13 = times_minus_i(a1 - a3);
    a0 = s02 + s13;
    a1 = d02 + d13;
    a2 = s02 - s13;
    a3 = d02 - d13;
}

template <class R, class V>
struct Butterfly<4, R, V> {
    static BK_HD void apply(FftValue<V> (&a)[4]) { butterfly4(a[0], a[1], a[2], a[3]); }
};

template <class R, class V>
struct Butterfly<8, R, V> {
    static BK_HD void apply(FftValue<V> (&a)[8]) {
        const R h = static_cast<R>(0.70710678118654752440);
        FftValue<V> e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6], o0 = a[1], o1 = a[3], o2 = a[5], o3 = a[7];
        butterfly4(e0, e1, e2, e3);
        butterfly4(o0, o1, o2, o3);
        o1 = FftValue<V>{(o1.re + o1.im) * h, (o1.im - o1.re) * h};
        o2 = times_minus_i(o2);
        o3 = FftValue<V>{(o3.im - o3.re) * h, -(o3.re + o3.im) * h};
        a[0] = e0 + o0;
        a[1] = e1 + o1;
        a[2] = e2 + o2;
        a[3] = e3 + o3;
        a[4] = e0 - o0;
        a[5] = e1 - o1;
        a[6] = e2 - o2;
        a[7] = e3 - o3;
    }
};

// r = a b with coprime factors needs no roots between them (Good 1958): position (b s + a t) mod r, and value k with
// k mod a and k mod b those of the factors.
template <int a, int b, class R, class V>
struct CoprimeButterfly {
    static constexpr int r = a * b;
    static BK_HD constexpr int inverse(int x, int n) {
        int y = 1;
        while (x * y % n != 1) ++y;
        return y;
    }
    static BK_HD void apply(FftValue<V> (&x)[r]) {
        FftValue<V> rows[a][b];
        BK_UNROLL
        for (int s = 0; s < a; ++s) {
            BK_UNROLL
            for (int t = 0; t < b; ++t) rows[s][t] = x[(b * s + a * t) % r];
            Butterfly<b, R, V>::apply(rows[s]);
        }
        constexpr int of_s = b * inverse(b % a, a), of_t = a * inverse(a % b, b);
        BK_UNROLL
        for (int t = 0; t < b; ++t) {
            FftValue<V> column[a];
            BK_UNROLL
            for (int s = 0; s < a; ++s) column[s] = rows[s][t];
            Butterfly<a, R, V>::apply(column);
            BK_UNROLL
            for (int s = 0; s < a; ++s) x[(of_s * s + of_t * t) % r] = column[s];
        }
    }
};
template <class R, class V>
struct Butterfly<6, R, V> : CoprimeButterfly<2, 3, R, V> {};
template <class R, class V>
struct Butterfly<10, R, V> : CoprimeButterfly<2, 5, R, V> {};
template <class R, class V>
struct Butterfly<12, R, V> : CoprimeButterfly<4, 3, R, V> {};

// cos and sin of 2 pi k / r, k up to (a - 1)^2, of a radix r = a^2.
template <int a>
struct SquareRoots;
template <>
struct SquareRoots<3> {
    static BK_HD double cosine(int k) {
        return k == 1 ? 0.76604444311897803520 : k == 2 ? 0.17364817766693034885 : -0.93969262078590838405;
    }
    static BK_HD double sine(int k) {
        return k == 1 ? 0.64278760968653932632 : k == 2 ? 0.98480775301220805937 : 0.34202014332566873304;
    }
};
template <>
struct SquareRoots<4> {
    static BK_HD double cosine(int k) {
        return k == 1   ? 0.92387953251128675613
               : k == 2 ? 0.70710678118654752440
               : k == 3 ? 0.38268343236508977173
               : k == 4 ? 0
               : k == 6 ? -0.70710678118654752440
                        : -0.92387953251128675613;
    }
    static BK_HD double sine(int k) {
        return k == 1   ? 0.38268343236508977173
               : k == 2 ? 0.70710678118654752440
               : k == 3 ? 0.92387953251128675613
               : k == 4 ? 1
               : k == 6 ? 0.70710678118654752440
                        : -0.38268343236508977173;
    }
};

template <int a, class R, class V>
struct SquareButterfly {
    static BK_HD void apply(FftValue<V> (&x)[a * a]) {
        BK_UNROLL
        for (int t = 0; t < a; ++t) {
            FftValue<V> column[a];
            BK_UNROLL
            for (int s = 0; s < a; ++s) column[s] = x[s * a + t];
            Butterfly<a, R, V>::apply(column);
            BK_UNROLL
            for (int k = 0; k < a; ++k)
                x[k * a + t] = k * t == 0 ? column[k]
                                          : rotated(column[k], static_cast<R>(SquareRoots<a>::cosine(k * t)),
                                                    static_cast<R>(SquareRoots<a>::sine(k * t)));
        }
        FftValue<V> values[a * a];
        BK_UNROLL
        for (int k = 0; k < a; ++k) {
            FftValue<V> row[a];
            BK_UNROLL
            for (int t = 0; t < a; ++t) row[t] = x[k * a + t];
            Butterfly<a, R, V>::apply(row);
            BK_UNROLL
            for (int t = 0; t < a; ++t) values[k + a * t] = row[t];
        }
        BK_UNROLL
        for (int k = 0; k < a * a; ++k) x[k] = values[k];
    }
};
template <class R, class V>
struct Butterfly<9, R, V> : SquareButterfly<3, R, V> {};
template <class R, class V>
struct Butterfly<16, R, V> : SquareButterfly<4, R, V> {};

}  // namespace bk
