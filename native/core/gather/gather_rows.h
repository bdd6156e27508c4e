// SPDX-License-Identifier: Apache-2.0
// Row gather: y[i] = x[index[i]], or zeros if the index is outside [0, source_rows) or is `dropped`.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/vec.h"

namespace bk {

struct GatherShape {
    int64_t rows, columns, source_rows;
    int64_t dropped = -1;

    BK_HD bool keeps(int64_t index) const { return index >= 0 && index < source_rows && index != dropped; }
};

template <class T, class I>
Status gather_rows(const Launch& launch, const GatherShape& shape, const T* x, const I* index, T* y);

}  // namespace bk

#if BK_CUDA
#include "core/gather/gather_rows_cuda.cuh"
#else
#include "core/gather/gather_rows_cpu.h"
#endif
