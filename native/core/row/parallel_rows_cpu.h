// SPDX-License-Identifier: Apache-2.0
// Parallel loops over rows, many of which are short.
#pragma once

#include <cstdint>

#include "core/abi/launch_cpu.h"

namespace bk {

// parallel_ranges, compiled so that short copy loops stay loops.
#if BK_ISA_DISPATCH
template <class Body>
BK_FOR_AVX512 BK_KEEPS_COPIES void run_rows_avx512(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}

template <class Body>
BK_FOR_AVX2 BK_KEEPS_COPIES void run_rows_avx2(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}
#endif

template <class Body>
void parallel_rows(int64_t count, int64_t grain, const Body& body) {
    split_ranges(count, grain, [&](int64_t begin, int64_t end) {
#if BK_ISA_DISPATCH
        switch (isa()) {
            case Isa::kAvx512: return run_rows_avx512(body, begin, end);
            case Isa::kAvx2: return run_rows_avx2(body, begin, end);
            case Isa::kBase: break;
        }
#endif
        run_range(body, begin, end);
    });
}

}  // namespace bk
