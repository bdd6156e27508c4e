// SPDX-License-Identifier: Apache-2.0
// Ops of native/linalg/tables/householder.abi: the reference's batched tools on packed column-major slots.
#pragma once

#include <algorithm>

#include "linalg/block_reflector.h"
#include "linalg/ops/operands.h"

namespace bk::linalg {

template <class T>
struct BatchedOrmqrOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;
    int32_t side;
    int32_t form;

    Work work() const { return batch != 0 && m != 0 && n != 0 && k != 0 ? Work::kAll : Work::kNone; }
    int32_t packed_rows() const { return side == 0 ? m : n; }
    int32_t packed_columns() const { return side == 0 ? k : n; }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}, {"k", k}}));
        if (side != 0 && side != 1) return fail(Status::kInvalidProblem, "side is %d, must be 0 (left) or 1 (right)", side);
        if (k > packed_rows())
            return fail(Status::kInvalidProblem, "k is %d, must be <= %s, %d", k, side == 0 ? "m" : "n", packed_rows());
        if (form < 0 || form > 2) return fail(Status::kInvalidProblem, "form is %d, must be 0 (N), 1 (T) or 2 (C)", form);
        return Status::kOk;
    }
    int64_t bytes() const { return reflect_bytes<scalar_t<T>>(batch, packed_rows(), side == 0 ? n : m, k); }
    size_t workspace_size() const { return carved(bytes()); }

    // A transpose has the reflectors of conjugate vectors; c Q is (Q^T c^T)^T.
    Status run(const T* a_packed, const T* tau, T* c, const Launch& launch) const {
        using S = scalar_t<T>;
        const bool is_right = side != 0;
        const int64_t rows = packed_rows();
        Matrices<S> view = column_major(scalars(c), m, int64_t{m} * n);
        if (is_right) view = view.transposed();
        const bool conjugates_v = is_right ? form != 1 : form == 1;
        const ReflectProblem<S> p{batch,
                                  rows,
                                  is_right ? m : n,
                                  k,
                                  column_major(scalars(a_packed), rows, rows * packed_columns()),
                                  scalars(tau),
                                  k,
                                  view.constant(),
                                  view,
                                  false,
                                  is_right == (form == 0),
                                  form == 2,
                                  conjugates_v,
                                  nullptr};
        void* scratch = nullptr;  // a shorter workspace is none
        if (bytes() > 0 && workspace_holds(launch, carved(bytes()))) BK_TRY(take_workspace(launch, bytes(), &scratch));
        return reflect<S>(launch, p, scratch);
    }
};

// Items are some columns of a matrix each.
constexpr int64_t kWrittenColumns = 16;

template <class S>
struct WriteColumnsJob {
    enum What { kUpper, kIdentity, kVectors };
    What what;
    int64_t rows, columns;  // of a written slot
    int64_t chunks;
    const S* a;  // packed, with `pitch` rows
    int64_t pitch, a_step;
    int64_t first, count;  // of kVectors: the first reflector, and their number
    S* to;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char*) const {
        const int64_t b = item / chunks, begin = item % chunks * kWrittenColumns;
        const int64_t n = columns - begin < kWrittenColumns ? columns - begin : kWrittenColumns;
        const S* const from = a + b * a_step;
        S* const slot = to + b * rows * columns;
        for_elements(team, rows, n, true, [&](int64_t i, int64_t at) {
            const int64_t j = begin + at;
            const S one = S(real_t<S>(1)), zero = S(real_t<S>(0));
            S value = i == j ? one : zero;
            if (what == kUpper) value = i <= j ? from[i + j * pitch] : zero;
            if (what == kVectors) {
                const int64_t column = first + j;
                value = j >= count || i < column ? zero : i == column ? one : from[i + column * pitch];
            }
            slot[i + j * rows] = value;
        });
    }
};

template <class S>
Status write_columns(const Launch& launch, int64_t batch, WriteColumnsJob<S> job) {
    job.chunks = ceil_div(job.columns, kWrittenColumns);
    return run_matrices(launch, batch * job.chunks, job.rows, 0, nullptr, job.rows * kWrittenColumns, job);
}

template <class T>
struct MaterializeROp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;

    Work work() const { return batch != 0 && m != 0 && n != 0 && k != 0 ? Work::kAll : Work::kNone; }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}, {"k", k}}));
        if (k > std::min(m, n)) return fail(Status::kInvalidProblem, "k is %d, must be <= m and n, %d and %d", k, m, n);
        return Status::kOk;
    }
    size_t workspace_size() const { return 0; }
    Status run(const T* a_packed, T* r, const Launch& launch) const {
        using S = scalar_t<T>;
        return write_columns<S>(launch, batch,
                                {WriteColumnsJob<S>::kUpper, k, n, 0, scalars(a_packed), m, int64_t{m} * n, 0, 0, scalars(r)});
    }
};

template <class T>
struct MaterializeIdentityOp {
    int32_t batch;
    int32_t m;

    Work work() const { return all_or_none(int64_t{batch} * m); }
    Status check() const { return require_non_negative({{"batch", batch}, {"m", m}}); }
    size_t workspace_size() const { return 0; }
    Status run(T* q, const Launch& launch) const {
        using S = scalar_t<T>;
        return write_columns<S>(launch, batch, {WriteColumnsJob<S>::kIdentity, m, m, 0, nullptr, 0, 0, 0, 0, scalars(q)});
    }
};

template <class S>
struct BuildTrianglesJob {
    int64_t m, k, nb, blocks;
    const S *a, *tau;
    S* t;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char*) const {
        const int64_t b = item / blocks, first = item % blocks * nb;
        if (first >= k) return;
        const int64_t count = k - first < nb ? k - first : nb;
        const Columns<S> to{t + item * nb * nb, nb};
        for_elements(team, nb, nb, true, [&](int64_t i, int64_t j) {
            if (i >= count || j >= count) to(i, j) = S(real_t<S>(0));
        });
        const Matrix<const S> v{a + b * m * k + first * m + first, 1, m};
        build_triangle(team, m - first, count, v, false, tau + b * k + first, false, to.view());
    }
};

template <class T>
struct WyBuildTOp {
    int32_t batch;
    int32_t m;
    int32_t k;
    int32_t nb;
    int32_t num_blocks;

    Work work() const { return batch != 0 && m != 0 && k != 0 && num_blocks != 0 ? Work::kAll : Work::kNone; }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"k", k}, {"num_blocks", num_blocks}}));
        if (nb < 1) return fail(Status::kInvalidProblem, "nb is %d, must be >= 1", nb);
        if (k > m) return fail(Status::kInvalidProblem, "k is %d, must be <= m, %d", k, m);
        return Status::kOk;
    }
    size_t workspace_size() const { return 0; }
    Status run(const T* a_packed, const T* tau, T* t_out, const Launch& launch) const {
        using S = scalar_t<T>;
        const BuildTrianglesJob<S> job{m, k, nb, num_blocks, scalars(a_packed), scalars(tau), scalars(t_out)};
        return run_matrices(launch, int64_t{batch} * num_blocks, std::max(m, nb), 0, nullptr, int64_t{m} * nb * nb, job);
    }
};

template <class T>
struct WyExtractVOp {
    int32_t batch;
    int32_t m;
    int32_t k;
    int32_t nb;
    int32_t block_start;
    int32_t block_k;

    Work work() const { return all_or_none(int64_t{batch} * m); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"k", k}, {"block_start", block_start}}));
        if (nb < 1) return fail(Status::kInvalidProblem, "nb is %d, must be >= 1", nb);
        if (block_k < 0 || block_k > nb)
            return fail(Status::kInvalidProblem, "block_k is %d, must be in [0, nb], %d", block_k, nb);
        if (int64_t{block_start} + block_k > k)
            return fail(Status::kInvalidProblem, "block_start is %d: with block_k, %d, it must be <= k, %d", block_start,
                        block_k, k);
        return Status::kOk;
    }
    size_t workspace_size() const { return 0; }
    Status run(const T* a_packed, T* v_out, const Launch& launch) const {
        using S = scalar_t<T>;
        return write_columns<S>(launch, batch,
                                {WriteColumnsJob<S>::kVectors, m, nb, 0, scalars(a_packed), m, int64_t{m} * k, block_start,
                                 block_k, scalars(v_out)});
    }
};

}  // namespace bk::linalg
