// SPDX-License-Identifier: Apache-2.0
// Forward pooling: y[n, c, o] = op over the cells of window o, and with kHasPosition the number of its first greatest cell.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/vec.h"
#include "pool/operators.h"

namespace bk::pool {

// indices may be null; an entry is the row-major number of a cell in its plane, or -1 for a window without cells.
template <class Op, class T>
Status reduce_windows(const Launch& launch, const Problem& problem, const Op& op, const T* x, T* y, int64_t* indices);

}  // namespace bk::pool

#if BK_CUDA
#include "pool/reduce_windows_cuda.cuh"
#else
#include "pool/reduce_windows_cpu.h"
#endif
