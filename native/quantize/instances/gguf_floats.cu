// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's formats of e2m1 elements.
#include "core/codec/gguf_floats.h"
#include "quantize/products/block_product_cuda.cuh"

namespace bk {

template Status block_product<codec::Mxfp4>(const Launch&, const BlockProduct&);
template Status block_product<codec::Nvfp4>(const Launch&, const BlockProduct&);

}  // namespace bk
