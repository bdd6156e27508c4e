// The adjoint of copies that repeat elements one behind the other (core/pointwise/repeated_elements.cuh), of few repeats.
#pragma once

#include "core/abi/launch.h"
#include "core/pointwise/copies.h"
#include "core/types/dtype.h"

namespace bk {

// x = the sums over the last axis of the layout, along which x stands still, of y's elements: in compute_t<T>, in the order of
// y. The layout has y first. *is_done is false where there is no kernel of such sums.
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
