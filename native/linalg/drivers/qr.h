// SPDX-License-Identifier: Apache-2.0
// QR factorisation by Householder reflectors, and products with Q. Large problems apply blocks of reflectors as I - V T V^H
// (Schreiber and Van Loan 1989), of which V is a dense copy in the workspace.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/block_reflector.h"
#include "linalg/drivers/steps.h"
#include "linalg/lapack/by_lapack.h"

namespace bk::linalg {

template <class S>
int64_t qr_slot(int64_t m, int64_t n) {
    return slot_bytes_of((m | 1) * n, sizeof(S));
}

template <class S>
struct QrJob {
    QrProblem<S> p;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const Columns<S> a{reinterpret_cast<S*>(slot), p.m | 1};
        load(team, p.a[b], p.m, p.n, a);
        factor_qr(team, p.m, p.n, a, p.tau + b * p.tau_step);
        store(team, a, p.m, p.n, p.packed[b]);
        if (team.rank == 0 && p.info != nullptr) p.info[b] = 0;
    }
};

// Reflectors of a block.
constexpr int64_t kReflectors = 32;

// Workspace of blocks of reflectors: V and T of each matrix, V^H C and its product with T.
template <class S>
struct BlockParts {
    S *v, *t, *w, *tw;

    static BlockParts carve(int64_t batch, int64_t m, int64_t n, int64_t k, Carver* carver) {
        const int64_t nb = std::min(kReflectors, k);
        return {carver->take<S>(batch * m * nb), carver->take<S>(batch * nb * nb), carver->take<S>(batch * nb * n),
                carver->take<S>(batch * nb * n)};
    }
    static int64_t bytes(int64_t batch, int64_t m, int64_t n, int64_t k) {
        Carver carver;
        carve(batch, m, n, k, &carver);
        return static_cast<int64_t>(carver.bytes());
    }
};

// c = (I - V T V^H) c, or with T^H, of m x n; V is m x nb.
template <class S>
Status apply_block(const Launch& launch, const BlockParts<S>& parts, int64_t batch, int64_t m, int64_t n, int64_t nb,
                   bool is_adjoint, const Matrices<S>& c) {
    const Matrices<const S> v = column_major<S>(parts.v, m, m * nb).constant(),
                            t = column_major<S>(parts.t, nb, nb * nb).constant();
    const Matrices<S> w = column_major(parts.w, nb, nb * n), tw = column_major(parts.tw, nb, nb * n);
    BK_TRY(product<S>(launch, {batch, nb, n, m, v.transposed(), c.constant(), w, true, false, false, false}));
    BK_TRY(product<S>(launch,
                      {batch, nb, n, nb, is_adjoint ? t.transposed() : t, w.constant(), tw, is_adjoint, false, false, false}));
    return product<S>(launch, {batch, m, n, nb, v, tw.constant(), c, false, false, true, false});
}

// The vectors of a block as a dense V: zeros above, ones on the diagonal; and T.
template <class S>
BK_LINALG void finish_block(const MatrixTeam& team, int64_t m, int64_t nb, const Columns<S>& v, const S* tau,
                            bool conjugates_tau, const Columns<S>& t) {
    for_elements(team, nb, nb, true, [&](int64_t i, int64_t j) {
        if (i <= j) v(i, j) = S(real_t<S>(i == j ? 1 : 0));
    });
    team.sync();
    build_triangle(team, m, nb, Matrix<const S>{v.data, 1, v.pitch}, false, tau, conjugates_tau, t.view());
}

template <class S>
struct QrPanelJob {
    int64_t first, m, n;  // the panel's rows and columns from `first` on
    Matrices<S> packed;
    S* tau;
    int64_t tau_step;
    BlockParts<S> parts;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char*) const {
        const Columns<S> v{parts.v + b * m * n, m}, t{parts.t + b * n * n, n};
        const Matrix<S> block = packed[b].at(first, first);
        S* const own = tau + b * tau_step + first;
        load(team, Matrix<const S>{block.data, block.row, block.column}, m, n, v);
        factor_qr(team, m, n, v, own);
        store(team, v, m, n, block);
        team.sync();
        finish_block(team, m, n, v, own, false, t);
    }
};

template <class S>
Status qr_by_blocks(const Launch& launch, const QrProblem<S>& p, void* workspace) {
    const int64_t m = p.m, n = p.n, least = std::min(m, n);
    Carver carver(workspace);
    const BlockParts<S> parts = BlockParts<S>::carve(p.batch, m, n, least, &carver);
    BK_TRY(copy(launch, Copies::kAll, p.batch, m, n, p.a, p.packed));
    if (p.info != nullptr) BK_TRY(fill_bytes(launch, p.info, 0, static_cast<size_t>(p.batch) * sizeof(int32_t)));
    for (int64_t first = 0; first < least; first += kReflectors) {
        const int64_t nb = std::min(kReflectors, least - first), next = first + nb;
        BK_TRY(run_matrices(launch, p.batch, m - first, 0, nullptr, 4 * (m - first) * nb * nb,
                            QrPanelJob<S>{first, m - first, nb, p.packed, p.tau, p.tau_step, parts}));
        if (next < n) BK_TRY(apply_block(launch, parts, p.batch, m - first, n - next, nb, true, p.packed.at(first, next)));
    }
    return Status::kOk;
}

template <class S>
int64_t qr_bytes(int64_t batch, int64_t m, int64_t n) {
    const int64_t blocks = is_fast(qr_slot<S>(m, n)) ? 0 : BlockParts<S>::bytes(batch, m, n, std::min(m, n));
    return std::max(blocks, lapack_bytes<LapackQr<S>>(batch, m, n));
}

template <class S>
Status factor_qr(const Launch& launch, const QrProblem<S>& p, void* workspace) {
#if !BK_CUDA
    if (const auto* with = lapack_for<S>(p.m, p.n, kQrExtent<S>)) return qr_by_lapack(launch, *with, p, workspace);
#endif
    if (!is_fast(qr_slot<S>(p.m, p.n))) return qr_by_blocks(launch, p, workspace);
    return run_matrices(launch, p.batch, std::max(p.m, p.n), qr_slot<S>(p.m, p.n), nullptr, 2 * p.m * p.n * std::min(p.m, p.n),
                        QrJob<S>{p});
}

// --- products of reflectors --------------------------------------------------------------------------------------------

constexpr int64_t kReflectedColumns = 16;  // of an item

// Reflectors on kReflectedColumns columns of c, which are staged if they fit.
template <class S>
int64_t reflect_slot(int64_t m) {
    const int64_t bytes = slot_bytes_of((m | 1) * kReflectedColumns, sizeof(S));
    return is_fast(bytes) ? bytes : 0;
}

template <class S>
struct ReflectJob {
    ReflectProblem<S> p;
    int64_t chunks;
    bool is_staged;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char* slot) const {
        const int64_t b = item / chunks, first = item % chunks * kReflectedColumns;
        const int64_t n = p.n - first < kReflectedColumns ? p.n - first : kReflectedColumns;
        const Matrix<const S> v = p.v[b];
        const Matrix<S> to = p.c[b].at(0, first);
        const Columns<S> staged{reinterpret_cast<S*>(slot), p.m | 1};
        const Matrix<S> c = is_staged ? staged.view() : to;
        const Matrix<const S> from = p.is_identity ? Matrix<const S>{nullptr, 0, 0} : p.from[b].at(0, first);
        if (p.is_identity)
            for_elements(team, p.m, n, is_by_rows(c),
                         [&](int64_t i, int64_t j) { c(i, j) = S(real_t<S>(i == first + j ? 1 : 0)); });
        else if (is_staged || from.data != to.data)
            for_elements(team, p.m, n, is_by_rows(from), [&](int64_t i, int64_t j) { c(i, j) = from(i, j); });
        for (int64_t step = 0; step < p.k; ++step) {
            const int64_t at = p.is_ascending ? step : p.k - 1 - step;
            team.sync();
            apply(team, at, n, v, conj_if(p.conjugates_tau, p.tau[b * p.tau_step + at]), c);
        }
        team.sync();
        if (is_staged) store(team, staged, p.m, n, to);
        if (team.rank == 0 && first == 0 && p.info != nullptr) p.info[b] = 0;
    }

private:
    BK_LINALG void apply(const MatrixTeam& team, int64_t at, int64_t n, const Matrix<const S>& v, S tau,
                         const Matrix<S>& c) const {
        if (tau == S(0)) return;
        for (int64_t j = team.group; j < n; j += team.groups) {
            S sum = team.lane == 0 ? c(at, j) : S(0);
            for (int64_t i = at + 1 + team.lane; i < p.m; i += team.lanes)
                sum = add_product(sum, conj_if(!p.conjugates_v, v(i, at)), c(i, j));
            sum = tau * team.sum_of_lanes(sum);
            team.sync_lanes();
            for (int64_t i = at + 1 + team.lane; i < p.m; i += team.lanes)
                c(i, j) = subtract_product(c(i, j), sum, conj_if(p.conjugates_v, v(i, at)));
            if (team.lane == 0) c(at, j) = c(at, j) - sum;
        }
    }
};

// Blocks pay where there are several reflectors, and columns.
inline bool reflects_blocks(int64_t m, int64_t n, int64_t k) { return m >= 64 && n >= 16 && k >= 16; }

template <class S>
struct ExtractBlockJob {
    ReflectProblem<S> p;
    int64_t first, nb;
    BlockParts<S> parts;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char*) const {
        const int64_t m = p.m - first;
        const Columns<S> v{parts.v + b * m * nb, m}, t{parts.t + b * nb * nb, nb};
        load(team, p.v[b].at(first, first), m, nb, v, p.conjugates_v);
        team.sync();
        finish_block(team, m, nb, v, p.tau + b * p.tau_step + first, p.conjugates_tau != p.is_ascending, t);
    }
};

template <class S>
Status reflect_by_blocks(const Launch& launch, const ReflectProblem<S>& p, void* workspace) {
    Carver carver(workspace);
    const BlockParts<S> parts = BlockParts<S>::carve(p.batch, p.m, p.n, p.k, &carver);
    BK_TRY(copy(launch, p.is_identity ? Copies::kIdentity : Copies::kAll, p.batch, p.m, p.n, p.from, p.c));
    if (p.info != nullptr) BK_TRY(fill_bytes(launch, p.info, 0, static_cast<size_t>(p.batch) * sizeof(int32_t)));
    const int64_t blocks = ceil_div(p.k, kReflectors);
    for (int64_t step = 0; step < blocks; ++step) {
        const int64_t first = (p.is_ascending ? step : blocks - 1 - step) * kReflectors,
                      nb = std::min(kReflectors, p.k - first);
        BK_TRY(run_matrices(launch, p.batch, p.m - first, 0, nullptr, (p.m - first) * nb * nb,
                            ExtractBlockJob<S>{p, first, nb, parts}));
        BK_TRY(apply_block(launch, parts, p.batch, p.m - first, p.n, nb, p.is_ascending, p.c.at(first, 0)));
    }
    return Status::kOk;
}

template <class S>
int64_t reflect_bytes(int64_t batch, int64_t m, int64_t n, int64_t k) {
    const int64_t blocks = reflects_blocks(m, n, k) ? BlockParts<S>::bytes(batch, m, n, k) : 0;
    return std::max(blocks, is_of_lapack(n, k, kQrExtent<S>) ? lapack_bytes<LapackReflect<S>>(batch, m, n, k) : 0);
}

// Without a workspace reflectors are applied one by one.
template <class S>
Status reflect(const Launch& launch, const ReflectProblem<S>& p, void* workspace) {
#if !BK_CUDA
    if (const auto* with = workspace == nullptr ? nullptr : lapack_for<S>(p.n, p.k, kQrExtent<S>))
        return reflect_by_lapack(launch, *with, p, workspace);
#endif
    if (workspace != nullptr && reflects_blocks(p.m, p.n, p.k)) return reflect_by_blocks(launch, p, workspace);
    const int64_t slot = reflect_slot<S>(p.m), chunks = ceil_div<int64_t>(p.n, kReflectedColumns);
    return run_matrices(launch, p.batch * chunks, std::max<int64_t>(p.m, 1), slot, nullptr, 4 * p.m * p.k * kReflectedColumns,
                        ReflectJob<S>{p, chunks, slot != 0});
}

}  // namespace bk::linalg
