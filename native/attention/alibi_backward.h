// Gradients of alibi: da = dy, dslope[h] = sum over b, i, j of dy[b, h, i, j] * (j - i). dy is read once for both.
#pragma once

#include <cstdint>

#include "attention/alibi.h"
#include "core/checks.h"
#include "core/launch.h"
#include "core/pointwise.h"
#include "core/workspace.h"

namespace bk {

// Bytes of workspace with which the reduction fills the chip.
template <class T>
size_t alibi_backward_workspace(const ScoreShape& shape);

template <class T>
Status alibi_backward(const Launch& launch, const ScoreShape& shape, const T* dy, T* da, T* dslope);

template <class T>
struct AlibiBackward {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;

    int64_t count() const {
        // Without scores dslope is still a sum, of nothing.
        const int64_t n = shape().count();
        return n == 0 && heads > 0 ? 1 : n;
    }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return shape().count() > 0 ? alibi_backward_workspace<T>(shape()) : 0; }
    Status run(const T* dy, T* da, T* dslope, const Launch& launch) const {
        if (shape().count() == 0)
            return dslope == nullptr ? Status::kOk
                                     : pointwise(launch, heads, ZeroFunctor<compute_t<T>>{}, outputs(dslope), inputs());
        BK_TRY(require_pointers({{"dy", dy}}));
        if (da == nullptr && dslope == nullptr) return fail(Status::kInvalidProblem, "da and dslope are both NULL");
        return alibi_backward(launch, shape(), dy, da, dslope);
    }

private:
    ScoreShape shape() const { return {batch, heads, q_len, k_len}; }
};

}  // namespace bk
