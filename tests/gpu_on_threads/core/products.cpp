// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights for kernels on fibers.
#include "quantize/products/gguf_k.cu"
#include "quantize/products/gguf_k_wide.cu"
#include "quantize/products/gguf_legacy.cu"
