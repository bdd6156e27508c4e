// SPDX-License-Identifier: Apache-2.0
// Steps of fused linear cross entropy (FLCE), which never stores all logits: the caller computes the logits of a block
// of rows, these ops overwrite them by their gradient, and the caller multiplies that by the weights.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/row/row_map.h"
#include "loss/cross_entropy/cross_entropy_rows.h"

namespace bk {

// L is the dtype of the losses and of the gradient's scale: f32, or f64 if T is f64.
template <class T, class L = float>
struct FlcePerRow {
    int32_t n_rows;
    int32_t v;
    int64_t row_stride;
    int64_t target_ignore;
    L scale_per_row;

    Status check() const {
        BK_TRY(require_non_negative({{"n_rows", n_rows}, {"v", v}, {"row_stride", row_stride}}));
        if (v < 1) return fail(Status::kInvalidProblem, "v is %d, must be >= 1", v);
        return Status::kOk;
    }
    Work work() const { return all_or_none(n_rows); }
    Status run(T* logits, const int64_t* target, L* loss_1d, const Launch& launch) const {
        RowAxes<2, 2> axes;
        axes.outer.append(n_rows, {row_stride, row_stride, 1, 1});
        axes.inner.append(v, {1, 1});
        const CrossEntropyRows<T> rows{{}, v, target_ignore, static_cast<compute_t<T>>(scale_per_row)};
        return map_rows(launch, axes, rows, inputs(static_cast<const T*>(logits)), inputs(), inputs(target), outputs(logits),
                        outputs(loss_1d));
    }
};

template <class T>
struct FlceCast {
    int64_t n_rows;

    struct Fn {
        BK_HD compute_t<T> operator()(float loss) const { return static_cast<compute_t<T>>(loss); }
    };

    Status check() const { return require_non_negative({{"n_rows", n_rows}}); }
    Work work() const { return all_or_none(n_rows); }
    Status run(const float* loss_1d, T* out, const Launch& launch) const {
        return pointwise(launch, n_rows, Fn{}, outputs(out), inputs(loss_1d));
    }
};

template <class T, class L = float>
struct FlceScale {
    int64_t numel;
    L scalar;

    struct Fn {
        compute_t<T> scale;
        BK_HD compute_t<T> operator()(compute_t<T> x) const { return x * scale; }
    };

    Status check() const { return require_non_negative({{"numel", numel}}); }
    Work work() const { return all_or_none(numel); }
    Status run(T* buf, const Launch& launch) const {
        return pointwise(launch, numel, Fn{static_cast<compute_t<T>>(scalar)}, outputs(buf),
                         inputs(static_cast<const T*>(buf)));
    }
};

}  // namespace bk
