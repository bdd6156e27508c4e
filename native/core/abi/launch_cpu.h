// Parallel loops on the CPU, compiled for several instruction sets and chosen at run time.
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

// The sanitizers instrument each variant anyway; one is enough there, and for targets other than x86-64.
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

// As BARACUDA_CPU_ISA and baracuda_kernels_build_info spell them.
constexpr const char* kIsaNames[] = {"baseline", "avx2", "avx512"};

inline Isa detect_isa() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("bmi2"))
        return Isa::kAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return Isa::kAvx2;
    return Isa::kBase;
}

// The best that the machine has, unless BARACUDA_CPU_ISA names another one that it has too.
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

// body(begin, end) on the calling thread, in the best variant for this machine.
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

// After a fork a thread works alone; threads that the child starts do not (core/abi/threads_cpu.cpp).
bool may_start_threads();
void starts_threads();

inline int64_t thread_count() {
#if defined(_OPENMP)
    return omp_in_parallel() || !may_start_threads() ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

// body(begin, end) over [0, count) in one piece a thread, at least `grain` items each.
template <class Body>
void split_ranges(int64_t count, int64_t grain, const Body& body) {
    const int64_t pieces = count / (grain > 0 ? grain : 1) < thread_count() ? count / (grain > 0 ? grain : 1) : thread_count();
    if (pieces <= 1) {
        if (count > 0) body(int64_t{0}, count);
        return;
    }
    starts_threads();
#if defined(_OPENMP)
#pragma omp parallel for schedule(static, 1) num_threads(static_cast<int>(pieces))
#endif
    for (int64_t piece = 0; piece < pieces; ++piece)
        body(count / pieces * piece + (piece < count % pieces ? piece : count % pieces),
             count / pieces * (piece + 1) + (piece + 1 < count % pieces ? piece + 1 : count % pieces));
}

// split_ranges with the whole body in the best variant for this machine.
template <class Body>
void parallel_ranges(int64_t count, int64_t grain, const Body& body) {
    split_ranges(count, grain, [&](int64_t begin, int64_t end) { dispatch_range(body, begin, end); });
}

// body(begin, end) over [0, count) in pieces of `grain` items, handed to whichever thread is free.
template <class Body>
void split_chunks(int64_t count, int64_t grain, const Body& body) {
    const int64_t pieces = ceil_div(count, grain);
    if (pieces <= 1 || thread_count() == 1) {
        if (count > 0) body(int64_t{0}, count);
        return;
    }
    starts_threads();
#if defined(_OPENMP)
#pragma omp parallel for schedule(dynamic, 1)
#endif
    for (int64_t piece = 0; piece < pieces; ++piece)
        body(piece * grain, (piece + 1) * grain < count ? (piece + 1) * grain : count);
}

// split_chunks with the whole body in the best variant for this machine.
template <class Body>
void parallel_chunks(int64_t count, int64_t grain, const Body& body) {
    split_chunks(count, grain, [&](int64_t begin, int64_t end) { dispatch_range(body, begin, end); });
}

// Items per thread below which starting the threads costs more than it saves, for items of `bytes` moved each.
inline int64_t grain_for(int64_t bytes) { return bytes > 0 ? ceil_div<int64_t>(65536, bytes) : 65536; }

}  // namespace bk
