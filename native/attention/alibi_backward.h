// SPDX-License-Identifier: Apache-2.0
// ALiBi backward: da = dy, dslope[h] = sum over b, i, j of dy[b, h, i, j] * (j - i). One pass over dy serves both.
#pragma once

#include <cstdint>

#include "attention/alibi.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Workspace size with which the reduction fills the chip.
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

    Work work() const {  // without scores dslope is an empty sum
        return heads == 0 ? Work::kNone : shape().count() == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return alibi_backward_workspace<T>(shape()); }
    Status run(const T* dy, T* da, T* dslope, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, heads, dslope);
        if (da == nullptr && dslope == nullptr) return fail(Status::kInvalidProblem, "da and dslope are both NULL");
        return alibi_backward(launch, shape(), dy, da, dslope);
    }

private:
    ScoreShape shape() const { return {batch, heads, q_len, k_len}; }
};

}  // namespace bk
