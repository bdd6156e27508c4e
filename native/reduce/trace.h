// SPDX-License-Identifier: Apache-2.0
// The sum of a diagonal.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/reduce/reduce.h"
#include "reduce/functions.h"

namespace bk {

template <class T>
struct Trace {
    int32_t rows;
    int64_t stride_row;
    int64_t stride_col;

    using Op = op::ReduceSum<T>;
    Work work() const { return rows == 0 ? Work::kZeros : Work::kAll; }
    Status check() const { return require_non_negative({{"rows", rows}}); }
    Status locate_x(Operand* x, const char* name, Role role, int64_t size) const {
        const int32_t shape[] = {rows, rows};
        const int64_t strides[] = {stride_row, stride_col};
        // Each stride is checked alone, so that their sum fits 64 bits; then the diagonal, which is all that is read.
        BK_TRY(locate_strided(x, name, role, size, "stride_row", 1, shape, strides, nullptr));
        BK_TRY(locate_strided(x, name, role, size, "stride_col", 1, shape, strides + 1, nullptr));
        const int64_t diagonal[] = {stride_row + stride_col};
        BK_TRY(locate_strided(x, name, role, size, "stride_row", 1, shape, diagonal, nullptr));
        x->rank = 0;
        return Status::kOk;
    }

    size_t workspace_size() const { return reduction_workspace<Op>(axes()); }
    Status run(const T* x, T* y, const Launch& launch) const { return run_reduction<Op>(launch, axes(), Op::reducer(), x, y); }

private:
    ReduceAxes<1, 1> axes() const {
        ReduceAxes<1, 1> axes;
        axes.reduced.append(rows, {stride_row + stride_col});
        return axes;
    }
};

}  // namespace bk
