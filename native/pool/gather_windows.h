// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling as gathers: dx of a cell is the sum over the windows that have it, in row-major order, in the compute
// type and rounded once. There are no atomics, and every cell is written. With `adds` the sum begins with dx's own value.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/vec.h"
#include "pool/operators.h"

namespace bk::pool {

template <class T>
struct GradientArrays {
    const T* x = nullptr;  // of the kinds that read it
    const T* y = nullptr;  // likewise
    const T* dy = nullptr;
    const int64_t* indices = nullptr;
    T* dx = nullptr;
};

// dy goes to the greatest cell of its window: to `indices`, or without them to the first cell that equals y. With
// is_absolute it is that of abs(x), and dy gets the sign of x.
struct MaxGradient {
    bool is_absolute = false;
};

// dy / divisor goes to all cells of its window.
struct AverageGradient {
    Divisor divisor;
};

// dy times the slope of NormOp goes to all cells.
template <class T>
struct NormGradient {
    NormOp<T> op;
};

template <class Rule, class T>
Status gather_windows(const Launch& launch, const Problem& problem, const Rule& rule, const GradientArrays<T>& arrays,
                      bool adds = false);

// MaxGradient where y is not known: the windows are searched again. dx is dense.
template <class T>
Status max_gradient_from_x(const Launch& launch, const Problem& problem, const T* x, const T* dy, T* dx);

}  // namespace bk::pool

#if BK_CUDA
#include "pool/gather_windows_cuda.cuh"
#else
#include "pool/gather_windows_cpu.h"
#endif
