// SPDX-License-Identifier: Apache-2.0
// Convolution of f32 on FMA on the GPU.
#include "conv/conv_cuda.cuh"

namespace bk {

BK_CONV(float)

}  // namespace bk
