// SPDX-License-Identifier: Apache-2.0
// Interpolation over up to three axes in one pass: y[z, y, x] = sum of the products of three entries of banded matrices
// (sample_axis.h) and an input element; and its adjoint, the same sum over columns. One writer per result, no atomics.
#pragma once

#include "core/abi/launch.h"
#include "core/types/dtype.h"
#include "image/resample/image_layout.h"
#include "image/resample/sample_axis.h"

namespace bk::image {

// The axes of an interpolation from [in] to [out].
struct SampleAxes {
    SampleAxis of[3];
};

// The weight of an input element is (of_z * of_y) * of_x; products are added up along z, then y, then x. Elements of weight 0
// are not read.
template <class T>
Status window_sum(const Launch& launch, const SampleAxes& axes, bool is_adjoint, bool accumulates, const ImageLayout& x_layout,
                  const T* x, const ImageLayout& y_layout, T* y);

// Nearest neighbours: elements of a width are copied, bit for bit.
template <class T>
Status nearest(const Launch& launch, const SampleAxes& axes, const ImageLayout& x_layout, const T* x,
               const ImageLayout& y_layout, T* y);

}  // namespace bk::image

#if BK_CUDA
#include "image/resample/window_sum_cuda.cuh"
#else
#include "image/resample/window_sum_cpu.h"
#endif
