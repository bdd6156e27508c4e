// SPDX-License-Identifier: Apache-2.0
// CPU code for one vector width, that of the instruction set in use.
#pragma once

#include "core/abi/launch_cpu.h"
#include "core/compiler_cpu.h"

namespace bk {

// Bytes of a vector register: 64, 32 or 16.
inline int vector_bytes() {
#if BK_ISA_DISPATCH
    return isa() == Isa::kAvx512 ? 64 : isa() == Isa::kAvx2 ? 32 : 16;
#else
    return 16;
#endif
}

// Whether BK_FOR_AVX512_DOT code may run; BARACUDA_CPU_ISA=avx512 excludes it.
inline bool has_dot_products() {
#if BK_ISA_DISPATCH
    static const bool value = [] {
        const char* wanted = getenv("BARACUDA_CPU_ISA");
        return isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
               (wanted == nullptr || strcmp(wanted, "avx512") != 0);
    }();
    return value;
#else
    return false;
#endif
}

#if BK_ISA_DISPATCH
template <class Body>
BK_FOR_AVX512 BK_FUSED void run_fused_avx512(const Body& body) {
    body();
}

template <class Body>
BK_FOR_AVX2 BK_FUSED void run_fused_avx2(const Body& body) {
    body();
}
#endif

template <class Body>
__attribute__((flatten)) BK_FUSED void run_fused_baseline(const Body& body) {
    body();
}

// Runs body() compiled for the instruction set of kBytes with multiply-add contraction: for sums of products, not for
// functions that rely on each rounding.
template <int kBytes, class Body>
void run_fused(const Body& body) {
#if BK_ISA_DISPATCH
    if constexpr (kBytes == 64)
        return run_fused_avx512(body);
    else if constexpr (kBytes == 32)
        return run_fused_avx2(body);
#endif
    run_fused_baseline(body);
}

// Runs body() compiled for the instruction set of kBytes; each operation is rounded by itself.
template <int kBytes, class Body>
void run_unfused(const Body& body) {
    const auto range = [&](int64_t, int64_t) { body(); };
#if BK_ISA_DISPATCH
    if constexpr (kBytes == 64)
        return run_range_avx512(range, 0, 1);
    else if constexpr (kBytes == 32)
        return run_range_avx2(range, 0, 1);
#endif
    run_range(range, 0, 1);
}

}  // namespace bk
