// SPDX-License-Identifier: Apache-2.0
// The attention cores of the CUDA library for kernels on fibers.
#include "attention/flash/attention.cu"
#include "attention/flash/decode.cu"
#include "attention/sm80/backward_bf16.cu"
#include "attention/sm80/backward_f16.cu"
#include "attention/sm80/decode.cu"
#include "attention/sm80/decode_fp8.cu"
#include "attention/sm80/decode_int8.cu"
#include "attention/sm80/forward.cu"
