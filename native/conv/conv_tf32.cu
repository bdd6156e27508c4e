// SPDX-License-Identifier: Apache-2.0
// Convolution of f32 rounded to TF32 on the GPU.
#include "conv/conv_cuda.cuh"

namespace bk {

BK_CONV(tf32)

}  // namespace bk
