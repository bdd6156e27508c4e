// SPDX-License-Identifier: Apache-2.0
// Convolution of bf16 on the GPU.
#include "conv/conv_cuda.cuh"

namespace bk {

BK_CONV(bf16)

}  // namespace bk
