// SPDX-License-Identifier: Apache-2.0
// Adjoint of repeat_interleave with few repeats (core/copy/repeat_interleave.cuh): sums of adjacent elements.
#pragma once

#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/types/dtype.h"

namespace bk {

// x = sums of y over the last axis of the layout, along which x has stride 0: in compute_t<T>, in the order of y. The
// layout has y first. *is_done is false if no kernel serves the layout.
template <class T>
Status sum_repeated(const Launch& launch, const CopyLayout& layout, const T* y, T* x, bool* is_done);

}  // namespace bk

#if BK_CUDA
#include "core/reduce/repeated_sums_cuda.cuh"
#else
namespace bk {

template <class T>
Status sum_repeated(const Launch&, const CopyLayout&, const T*, T*, bool* is_done) {
    *is_done = false;
    return Status::kOk;
}

}  // namespace bk
#endif
