// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights for kernels on fibers.
#include "quantize/decoded/decoded_product.cu"
#include "quantize/instances/gguf_floats.cu"
#include "quantize/instances/gguf_iq1_iq4.cu"
#include "quantize/instances/gguf_iq2.cu"
#include "quantize/instances/gguf_iq3.cu"
#include "quantize/instances/gguf_k.cu"
#include "quantize/instances/gguf_k_wide.cu"
#include "quantize/instances/gguf_legacy.cu"
#include "quantize/instances/gguf_ternary.cu"
#include "quantize/instances/tiled_bf16.cu"
#include "quantize/instances/tiled_f16.cu"
#include "quantize/products/dense_batch.cu"
