// SPDX-License-Identifier: Apache-2.0
// LAPACK of OpenBLAS (the package scipy-openblas64), which computes large matrices on the CPU where it is found: opened by its
// soname at first use, as core/vendor opens NVIDIA's libraries. BARACUDA_LAPACK=off leaves it alone, a path names another file.
//
// Extents alone choose between LAPACK and this library's code. Matrices with NaN or infinities, and those that LAPACK cannot
// decompose, are left to this library. The bits of a result depend on the threads of OpenBLAS, never on other matrices of the
// batch: is_serial() chooses one thread by the extents and, from 257 to 512 rows or columns, by the number of matrices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "linalg/problem.h"
#if !BK_CUDA
#include "linalg/workers_cpu.h"
#endif

namespace bk::linalg {

#if BK_CUDA
constexpr bool kHasLapack = false;
#else
constexpr bool kHasLapack = true;
#endif

// The least extents for which LAPACK is faster; QR factorisations and their Q, Hermitian eigenvalues and singular values, and
// eigenvalues of general matrices have their own.
constexpr int64_t kLapackExtent = 64;
template <class S>
constexpr int64_t kQrExtent = std::is_same_v<S, float> ? 32 : 24;
template <class S>
constexpr int64_t kHermitianExtent = kIsComplex<S>              ? 28
                                     : std::is_same_v<S, float> ? 64
                                                                : 40;
template <class S>
constexpr int64_t kGeneralExtent = std::is_same_v<S, float> ? 128 : 64;

// The largest extent for which a thread computes a matrix: any, or one of a batch that has matrices for all threads.
// OpenBLAS's threads share larger ones.
constexpr int64_t kSerialExtent = 256, kBatchExtent = 512;
constexpr int64_t kLapackBlock = 64;  // columns of LAPACK's blocks of reflectors, at most

constexpr bool is_of_lapack(int64_t m, int64_t n, int64_t least = kLapackExtent) {
    return kHasLapack && (m < n ? m : n) >= least;
}

// Rows of a column-major copy: columns begin at cache lines, and not all in the same cache set.
template <class S>
constexpr int64_t lapack_pitch(int64_t rows) {
    constexpr int64_t kAligned = 64 / static_cast<int64_t>(sizeof(S));
    return (rows + kAligned - 1) / kAligned * kAligned + kAligned;
}

#if BK_CUDA
inline int64_t worker_slots(int64_t) { return 0; }
#else
inline bool is_serial(int64_t batch, int64_t extent) {
    return extent <= kSerialExtent || (extent <= kBatchExtent && batch >= thread_count());
}
#endif

// Bytes of the workspace for Parts::carve(m, n, k, Carver*), of one matrix and of all workers. They grow with each extent,
// whether a thread or all of them compute a matrix.
template <class Parts>
int64_t lapack_slot(int64_t m, int64_t n, int64_t k) {
    Carver carver;
    Parts::carve(m, n, k, &carver);
    return static_cast<int64_t>((carver.bytes() + 255) / 256 * 256);
}
template <class Parts>
int64_t lapack_bytes(int64_t batch, int64_t m, int64_t n, int64_t k = 0) {
    if (!is_of_lapack(m, n, Parts::kLeast)) return 0;
    const auto bounded = [](int64_t extent) { return std::min(extent, kBatchExtent); };
    return std::max(times(worker_slots(batch), lapack_slot<Parts>(bounded(m), bounded(n), bounded(k))),
                    lapack_slot<Parts>(m, n, k));
}

// Copies and scratch in column-major order.
template <class S>
struct LapackLu {
    static constexpr int64_t kLeast = kLapackExtent;
    Columns<S> a;
    int64_t* pivots;

    static LapackLu carve(int64_t m, int64_t n, int64_t, Carver* carver) {
        const int64_t pitch = lapack_pitch<S>(m);
        return {{carver->take<S>(times(pitch, n)), pitch}, carver->take<int64_t>(std::min(m, n))};
    }
};

template <class S>
struct LapackLdl {
    static constexpr int64_t kLeast = 256;
    Columns<S> a;
    S* work;
    int64_t* pivots;

    static int64_t work_size(int64_t n) { return times(kLapackBlock, n); }
    static LapackLdl carve(int64_t n, int64_t, int64_t, Carver* carver) {
        const int64_t pitch = lapack_pitch<S>(n);
        return {{carver->take<S>(times(pitch, n)), pitch}, carver->take<S>(work_size(n)), carver->take<int64_t>(n)};
    }
};

template <class S>
struct LapackQr {
    static constexpr int64_t kLeast = kQrExtent<S>;
    Columns<S> a;
    S* work;

    // Twice LAPACK's: a and work are the workspace of qr_by_blocks(), too.
    static int64_t work_size(int64_t n) { return times(2 * kLapackBlock, n); }
    static LapackQr carve(int64_t m, int64_t n, int64_t, Carver* carver) {
        const int64_t pitch = lapack_pitch<S>(m);
        return {{carver->take<S>(times(pitch, n)), pitch}, carver->take<S>(work_size(n))};
    }
};

template <class S>
struct LapackReflect {
    static constexpr int64_t kLeast = kQrExtent<S>;
    Columns<S> v, c;
    S *tau, *work;

    // Beside blocks of C ormqr has a triangle of 65 x 64 elements.
    static int64_t work_size(int64_t n) { return times(kLapackBlock, n) + (kLapackBlock + 1) * kLapackBlock; }
    static LapackReflect carve(int64_t m, int64_t n, int64_t k, Carver* carver) {
        const int64_t pitch = lapack_pitch<S>(m);
        return {{carver->take<S>(times(pitch, k)), pitch},
                {carver->take<S>(times(pitch, n)), pitch},
                carver->take<S>(k),
                carver->take<S>(work_size(n))};
    }
};

}  // namespace bk::linalg

#if !BK_CUDA
#include "linalg/lapack/lapack_cpu.h"
#endif
