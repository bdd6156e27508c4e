// SPDX-License-Identifier: Apache-2.0
// Convolution of f16 on the GPU.
#include "conv/conv_cuda.cuh"

namespace bk {

BK_CONV(f16)

}  // namespace bk
