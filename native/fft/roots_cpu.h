// SPDX-License-Identifier: Apache-2.0
// Tables of roots of unity on the CPU.
#pragma once

#include <cstdint>

#include "core/compiler_cpu.h"
#include "fft/roots.h"

namespace bk {

// cos and sin of 2 pi (step k + first) / n for k < count: products of roots, in double precision.
template <class R>
BK_HD void fill_roots(int64_t step, int64_t first, int64_t n, int64_t count, R* c, R* s) {
    constexpr int kBlock = 16;
    double fine_c[kBlock], fine_s[kBlock];
    for (int k = 0; k < kBlock; ++k) {
        const FftRoot<double> root = unit_root<double>(step * k % n, n);
        fine_c[k] = root.c;
        fine_s[k] = root.s;
    }
    for (int64_t begin = 0; begin < count; begin += kBlock) {
        const FftRoot<double> coarse = unit_root<double>((step * begin + first) % n, n);
        const int64_t some = count - begin < kBlock ? count - begin : kBlock;
        BK_VECTOR_LOOP
        for (int64_t k = 0; k < some; ++k) {
            c[begin + k] = static_cast<R>(coarse.c * fine_c[k] - coarse.s * fine_s[k]);
            s[begin + k] = static_cast<R>(coarse.s * fine_c[k] + coarse.c * fine_s[k]);
        }
    }
}

}  // namespace bk
