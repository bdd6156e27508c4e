// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights for kernels on fibers.
#include "quantize/instances/gguf_k.cu"
#include "quantize/instances/gguf_k_wide.cu"
#include "quantize/instances/gguf_legacy.cu"
#include "quantize/products/dense_batch.cu"
