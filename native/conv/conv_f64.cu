// SPDX-License-Identifier: Apache-2.0
// Convolution of f64 on the GPU.
#include "conv/conv_cuda.cuh"

namespace bk {

BK_CONV(double)

}  // namespace bk
