// SPDX-License-Identifier: Apache-2.0
// Convolution for kernels on fibers.
#include "conv/col2im.cu"
#include "conv/conv_bf16.cu"
#include "conv/conv_f16.cu"
#include "conv/conv_f32.cu"
#include "conv/conv_f64.cu"
#include "conv/conv_int8.cu"
#include "conv/conv_tf32.cu"
