// SPDX-License-Identifier: Apache-2.0
// Functions of LAPACK and BLAS with 64-bit integers, in Fortran's convention: arguments by address, the lengths of strings
// behind them.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

#include "linalg/lapack/lapack.h"

namespace bk::linalg {

// A pointer for each of kNames, and nothing else. Complex matrices have orthogonal factors called "un", and Hermitian "he".
template <class S>
struct Lapack {
    using R = real_t<S>;
    using In = const int64_t*;
    using Out = int64_t*;
    using Flag = const char*;
    using Length = size_t;
    template <class OfReal, class OfComplex>
    using either = std::conditional_t<kIsComplex<S>, OfComplex, OfReal>;

    void (*trsm)(Flag side, Flag uplo, Flag op, Flag diagonal, In m, In n, const S* alpha, const S* a, In lda, S* b, In ldb,
                 Length, Length, Length, Length);
    void (*gemm)(Flag op_a, Flag op_b, In m, In n, In k, const S* alpha, const S* a, In lda, const S* b, In ldb, const S* beta,
                 S* c, In ldc, Length, Length);
    void (*potrf)(Flag uplo, In n, S* a, In lda, Out info, Length);
    void (*getrf)(In m, In n, S* a, In lda, Out pivots, Out info);
    void (*sytrf)(Flag uplo, In n, S* a, In lda, Out pivots, S* work, In lwork, Out info, Length);
    void (*hetrf)(Flag uplo, In n, S* a, In lda, Out pivots, S* work, In lwork, Out info, Length);
    void (*geqrf)(In m, In n, S* a, In lda, S* tau, S* work, In lwork, Out info);
    void (*orgqr)(In m, In n, In k, S* a, In lda, const S* tau, S* work, In lwork, Out info);
    void (*ormqr)(Flag side, Flag op, In m, In n, In k, const S* a, In lda, const S* tau, S* c, In ldc, S* work, In lwork,
                  Out info, Length, Length);
    either<void (*)(Flag job, Flag uplo, In n, S* a, In lda, R* w, S* work, In lwork, Out iwork, In liwork, Out info, Length,
                    Length),
           void (*)(Flag job, Flag uplo, In n, S* a, In lda, R* w, S* work, In lwork, R* rwork, In lrwork, Out iwork, In liwork,
                    Out info, Length, Length)>
        syevd;
    either<void (*)(Flag job, In m, In n, S* a, In lda, R* s, S* u, In ldu, S* vt, In ldvt, S* work, In lwork, Out iwork,
                    Out info, Length),
           void (*)(Flag job, In m, In n, S* a, In lda, R* s, S* u, In ldu, S* vt, In ldvt, S* work, In lwork, R* rwork,
                    Out iwork, Out info, Length)>
        gesdd;
    either<void (*)(Flag left, Flag right, In n, S* a, In lda, R* re, R* im, S* vl, In ldvl, S* vr, In ldvr, S* work, In lwork,
                    Out info, Length, Length),
           void (*)(Flag left, Flag right, In n, S* a, In lda, S* w, S* vl, In ldvl, S* vr, In ldvr, S* work, In lwork,
                    R* rwork, Out info, Length, Length)>
        geev;

    static constexpr char kLetter = std::is_same_v<S, float>            ? 's'
                                    : std::is_same_v<S, double>         ? 'd'
                                    : std::is_same_v<S, Complex<float>> ? 'c'
                                                                        : 'z';
    static constexpr const char* kNames[] = {"trsm",
                                             "gemm",
                                             "potrf",
                                             "getrf",
                                             "sytrf",
                                             kIsComplex<S> ? "hetrf" : "sytrf",
                                             "geqrf",
                                             kIsComplex<S> ? "ungqr" : "orgqr",
                                             kIsComplex<S> ? "unmqr" : "ormqr",
                                             kIsComplex<S> ? "heevd" : "syevd",
                                             "gesdd",
                                             "geev"};
};

// Looks up names of one letter; false if LAPACK is off, not found, or lacks one.
bool find_lapack(char letter, const char* const* names, size_t count, void** addresses);

// The functions, or NULL.
template <class S>
const Lapack<S>* lapack() {
    constexpr size_t kCount = sizeof(Lapack<S>::kNames) / sizeof(const char*);
    static_assert(sizeof(Lapack<S>) == kCount * sizeof(void*), "a pointer for each name");
    struct Table {
        Lapack<S> functions;
        bool is_found;

        Table() { is_found = find_lapack(Lapack<S>::kLetter, Lapack<S>::kNames, kCount, reinterpret_cast<void**>(&functions)); }
    };
    static const Table table;
    return table.is_found ? &table.functions : nullptr;
}

template <class S>
const Lapack<S>* lapack_for(int64_t m, int64_t n, int64_t least = kLapackExtent) {
    return is_of_lapack(m, n, least) ? lapack<S>() : nullptr;
}

// OpenBLAS computes on `threads` threads in its scope. The number is one of the process: scopes with another one wait, so that
// the bits of a result do not depend on other threads of the program; and so does a fork, whose child could use OpenBLAS in
// no other state. With 0 threads it is no scope.
class LapackThreads {
public:
    explicit LapackThreads(int64_t threads);
    ~LapackThreads();
    LapackThreads(const LapackThreads&) = delete;
    LapackThreads& operator=(const LapackThreads&) = delete;

private:
    const bool is_open_;
};

// f(b, worker) for each matrix of a batch: a matrix is a thread's, or OpenBLAS's threads share it.
template <class F>
Status for_each_matrix(int64_t batch, int64_t extent, const F& f) {
    const bool serial = is_serial(batch, extent);
    const LapackThreads threads(serial ? 1 : thread_count());
    std::atomic<int32_t> failed{0};
    MatrixQueue queue(batch);
    split_ranges(serial ? worker_count(batch) : 1, 1, [&](int64_t worker, int64_t) {
        for (int64_t b; queue.take(&b);) {
            const Status status = f(b, worker);
            if (status != Status::kOk) failed = static_cast<int32_t>(status);
        }
    });
    return static_cast<Status>(failed.load());
}

// Whether columns have neither NaN nor infinities; from the diagonal on if is_lower, up to it if is_upper.
template <class S>
bool is_finite(const Columns<S>& a, int64_t m, int64_t n, bool is_lower = false, bool is_upper = false) {
    using R = real_t<S>;
    constexpr int64_t kParts = sizeof(S) / sizeof(R);
    R total = R(0);  // x - x is 0, or NaN
    for (int64_t j = 0; j < n; ++j) {
        const R* const column = reinterpret_cast<const R*>(a.column(j));
        const int64_t begin = is_lower ? j : 0, end = is_upper ? std::min(j + 1, m) : m;
        R partial[16] = {};
        int64_t i = begin * kParts;
        for (; i + 16 <= end * kParts; i += 16)
            for (int lane = 0; lane < 16; ++lane) partial[lane] += column[i + lane] - column[i + lane];
        for (; i < end * kParts; ++i) total += column[i] - column[i];
        for (const R each : partial) total += each;
    }
    return total == R(0);
}

}  // namespace bk::linalg
