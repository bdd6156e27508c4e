// SPDX-License-Identifier: Apache-2.0
/* The error of each function of glibc's libmvec that native/core/math/math.h lets the compiler call, in every width that the
   machine has: function, width, worst error in ulp, where. Against the long double functions of libm, over arguments of all
   magnitudes and over those near 1.

     gcc -O2 -Wno-psabi tools/accuracy/libmvec.c -o build/libmvec -lmvec -lm && build/libmvec
*/
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COUNT (1 << 20)

typedef double v2 __attribute__((vector_size(16)));
typedef double v4 __attribute__((vector_size(32)));
typedef double v8 __attribute__((vector_size(64)));

static double x[COUNT], y[COUNT], z[COUNT];

#define EACH(f)                                                                                                              \
    f(exp2) f(expm1) f(log2) f(log10) f(log1p) f(sin) f(cos) f(tan) f(asin) f(acos) f(atan) f(sinh) f(cosh) f(tanh) f(asinh) \
        f(acosh) f(atanh) f(erf) f(erfc) f(cbrt)
#define EACH_OF_TWO(f) f(pow) f(atan2)

#define LOOP(letter, isa, vector, lanes, name)                                                                          \
    extern vector _ZGV##letter##N##lanes##v_##name(vector);                                                             \
    __attribute__((target(isa))) static void letter##_##name(void) {                                                    \
        for (int i = 0; i < COUNT; i += lanes) *(vector*)(z + i) = _ZGV##letter##N##lanes##v_##name(*(vector*)(x + i)); \
    }
#define LOOP_OF_TWO(letter, isa, vector, lanes, name)                                                    \
    extern vector _ZGV##letter##N##lanes##vv_##name(vector, vector);                                     \
    __attribute__((target(isa))) static void letter##_##name(void) {                                     \
        for (int i = 0; i < COUNT; i += lanes)                                                           \
            *(vector*)(z + i) = _ZGV##letter##N##lanes##vv_##name(*(vector*)(x + i), *(vector*)(y + i)); \
    }
#define WIDTHS(loop, name) loop(b, "sse4.1", v2, 2, name) loop(d, "avx2,fma", v4, 4, name) loop(e, "avx512f", v8, 8, name)
#define ONE(name)                                        \
    WIDTHS(LOOP, name)                                   \
    static long double true_##name(double a, double b) { \
        (void)b;                                         \
        return name##l(a);                               \
    }
#define TWO(name)             \
    WIDTHS(LOOP_OF_TWO, name) \
    static long double true_##name(double a, double b) { return name##l(a, b); }
EACH(ONE)
EACH_OF_TWO(TWO)

static uint64_t state = 1;
static uint64_t random_bits(void) { /* xorshift64* (Vigna 2016) */
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull;
}

/* Half of the arguments have any exponent within 2^+-range, half lie in [-2, 2]. */
static void fill(double* to, int range) {
    for (int i = 0; i < COUNT; ++i) {
        const uint64_t r = random_bits();
        const double one = 1 + (double)(r >> 12) * 0x1p-52, sign = r & 1 ? -1 : 1;
        const int exponent = (int)((r >> 1) % (uint64_t)(2 * range + 1)) - range;
        to[i] = i % 2 ? sign * ldexp(one, exponent) : 4 * (one - 1) - 2;
    }
}

static void report(const char* name, const char* width, long double (*true_value)(double, double)) {
    double worst = 0, at = 0, with = 0;
    for (int i = 0; i < COUNT; ++i) {
        const long double t = true_value(x[i], y[i]);
        if (isnan(t) || isinf((double)t) || isinf(z[i]) || fabsl(t) < 0x1p-1022L) continue;
        int exponent;
        frexpl(t, &exponent);
        const double error = (double)(fabsl(z[i] - t) * ldexpl(1, 53 - exponent));
        if (error > worst) worst = error, at = x[i], with = y[i];
    }
    printf("%-6s %4s  %7.3f  %a, %a\n", name, width, worst, at, with);
}

#define RUN(name)                                                                      \
    b_##name(), report(#name, "128", true_##name);                                     \
    if (__builtin_cpu_supports("avx2")) d_##name(), report(#name, "256", true_##name); \
    if (__builtin_cpu_supports("avx512f")) e_##name(), report(#name, "512", true_##name);

int main(void) {
    puts("function bits  worst ulp, where (of one operand the first)");
    fill(x, 60), fill(y, 4);
    EACH(RUN)
    fill(x, 8);
    for (int i = 0; i < COUNT; ++i) x[i] = fabs(x[i]);
    EACH_OF_TWO(RUN)
    return 0;
}
