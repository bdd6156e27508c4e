// SPDX-License-Identifier: Apache-2.0
// Softmax and log-softmax along an axis, and their gradients.
#pragma once

#include "softmax/softmax_axis.h"
#include "softmax/softmax_rows.h"

namespace bk {

template <class T, bool kLog>
struct Softmax : SoftmaxForwardArgs {
    using Rows = op::SoftmaxRows<T>;
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return map_rows(launch, rows(), Rows{{}, kLog}, inputs(x), inputs(), inputs(), outputs(y), outputs());
    }
};

template <class T, bool kLog>
struct SoftmaxBackward : SoftmaxBackwardArgs {
    using Rows = op::SoftmaxBackwardRows<T>;
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const T* dy, const T* y, T* dx, const Launch& launch) const {
        return run_rows(Rows{{}, kLog, 1}, dy, y, dx, launch);
    }
};

}  // namespace bk
