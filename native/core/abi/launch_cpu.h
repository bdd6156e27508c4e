// SPDX-License-Identifier: Apache-2.0
// Parallel loops on the CPU, compiled for several instruction sets and dispatched at run time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "core/abi/launch.h"
#include "core/compiler_cpu.h"
#include "core/platform.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

// Off under sanitizers, which would instrument every variant, and for targets other than x86-64.
#if defined(__x86_64__) && !defined(BK_ONE_ISA)
#define BK_ISA_DISPATCH 1
#else
#define BK_ISA_DISPATCH 0
#endif

namespace bk {

#if BK_ISA_DISPATCH
template <class Body>
BK_FOR_BASELINE void run_range(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}

template <class Body>
BK_FOR_AVX512 void run_range_avx512(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}

template <class Body>
BK_FOR_AVX2 void run_range_avx2(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}

enum class Isa { kBase, kAvx2, kAvx512 };

// Spelling of BARACUDA_CPU_ISA and baracuda_kernels_build_info.
constexpr const char* kIsaNames[] = {"baseline", "avx2", "avx512"};

inline Isa detect_isa() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("bmi2"))
        return Isa::kAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return Isa::kAvx2;
    return Isa::kBase;
}

// The machine's best instruction set, unless BARACUDA_CPU_ISA names a lesser one.
inline Isa choose_isa() {
    const Isa best = detect_isa();
    const char* wanted = getenv("BARACUDA_CPU_ISA");
    for (Isa one : {Isa::kBase, Isa::kAvx2, Isa::kAvx512})
        if (wanted != nullptr && one < best && strcmp(wanted, kIsaNames[static_cast<int>(one)]) == 0) return one;
    return best;
}

inline Isa isa() {
    static const Isa value = choose_isa();
    return value;
}
#endif

#if !BK_ISA_DISPATCH
template <class Body>
__attribute__((flatten)) void run_range(const Body& body, int64_t begin, int64_t end) {
    body(begin, end);
}
#endif

// Runs body(begin, end) on the calling thread in the best variant for this machine.
template <class Body>
void dispatch_range(const Body& body, int64_t begin, int64_t end) {
#if BK_ISA_DISPATCH
    switch (isa()) {
        case Isa::kAvx512: return run_range_avx512(body, begin, end);
        case Isa::kAvx2: return run_range_avx2(body, begin, end);
        case Isa::kBase: break;
    }
#endif
    run_range(body, begin, end);
}

// False in a thread that forked after it had started OpenMP threads (core/abi/threads_cpu.cpp).
bool may_start_threads();
void starts_threads();

inline int64_t thread_count() {
#if defined(_OPENMP)
    return omp_in_parallel() || !may_start_threads() ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

// Runs body(begin, end) over [0, count): one static range per thread, at least `grain` items each.
template <class Body>
void split_ranges(int64_t count, int64_t grain, const Body& body) {
    const int64_t chunks = count / (grain > 0 ? grain : 1) < thread_count() ? count / (grain > 0 ? grain : 1) : thread_count();
    if (chunks <= 1) {
        if (count > 0) body(int64_t{0}, count);
        return;
    }
    starts_threads();
#if defined(_OPENMP)
#pragma omp parallel for schedule(static, 1) num_threads(static_cast<int>(chunks))
#endif
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        body(count / chunks * chunk + (chunk < count % chunks ? chunk : count % chunks),
             count / chunks * (chunk + 1) + (chunk + 1 < count % chunks ? chunk + 1 : count % chunks));
}

// split_ranges with the whole body in the best variant for this machine.
template <class Body>
void parallel_ranges(int64_t count, int64_t grain, const Body& body) {
    split_ranges(count, grain, [&](int64_t begin, int64_t end) { dispatch_range(body, begin, end); });
}

// Runs body(begin, end) over [0, count) in dynamically scheduled chunks of `grain` items.
template <class Body>
void split_chunks(int64_t count, int64_t grain, const Body& body) {
    const int64_t chunks = ceil_div(count, grain);
    if (chunks <= 1 || thread_count() == 1) {
        if (count > 0) body(int64_t{0}, count);
        return;
    }
    starts_threads();
#if defined(_OPENMP)
#pragma omp parallel for schedule(dynamic, 1)
#endif
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        body(chunk * grain, (chunk + 1) * grain < count ? (chunk + 1) * grain : count);
}

// split_chunks with the whole body in the best variant for this machine.
template <class Body>
void parallel_chunks(int64_t count, int64_t grain, const Body& body) {
    split_chunks(count, grain, [&](int64_t begin, int64_t end) { dispatch_range(body, begin, end); });
}

inline Status fill_bytes(const Launch&, void* destination, int value, size_t bytes) {
    memset(destination, value, bytes);
    return Status::kOk;
}

// Items per thread, of `bytes` moved each, below which starting the threads costs more than it saves.
inline int64_t grain_for(int64_t bytes) { return bytes > 0 ? ceil_div<int64_t>(65536, bytes) : 65536; }

}  // namespace bk
