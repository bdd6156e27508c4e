// SPDX-License-Identifier: Apache-2.0
// Backward pass of y = x weight^T + bias.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"
#include "gemm/grouped.h"

namespace bk {

// dx = dy weight, dweight = dy^T x, dbias = sum of dy over its rows; all by rows and contiguous.
template <class T>
struct LinearBackward {
    int32_t m, n, k;

    Work work() const { return all_or_none(n > 0 || (m > 0 && k > 0)); }
    Status check_extents() const { return require_non_negative({{"m", m}, {"n", n}, {"k", k}}); }
    Status check() const { return check_extents(); }
    size_t workspace_size() const {
        return std::max({matmul_workspace<T>({m, k, n, 1}), matmul_workspace<T>({n, k, m, 1}),
                         reduce_workspace<SumReducer<T>, T>(columns())});
    }
    Status run(const T* dy, const T* x, const T* weight, T* dx, T* dweight, T* dbias, const Launch& launch) const {
        const MatrixStrides dy_at{n, 1, 0}, x_at{k, 1, 0};
        const Epilogue<T> into_dx = plain_epilogue<T>(dx, x_at, 1, 0), into_dweight = plain_epilogue<T>(dweight, x_at, 1, 0);
        if (dx != nullptr && m > 0 && k > 0)
            BK_TRY(matmul(launch, Matmul<T>{m, k, n, 1, dy, weight, dy_at, {k, 1, 0}, into_dx}));
        if (dweight != nullptr && n > 0 && k > 0)
            BK_TRY(matmul(launch, Matmul<T>{n, k, m, 1, dy, x, transposed(dy_at), x_at, into_dweight}));
        if (dbias == nullptr || n == 0) return Status::kOk;
        return reduce(launch, columns(), SumReducer<T>{false}, outputs(dbias), inputs(dy));
    }

private:
    ReduceAxes<1, 1> columns() const {
        ReduceAxes<1, 1> axes;
        const int64_t kept[] = {1, 1}, reduced[] = {n};
        axes.kept.append(n, kept);
        axes.reduced.append(m, reduced);
        return axes;
    }
};

}  // namespace bk
