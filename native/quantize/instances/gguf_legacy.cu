// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's formats of 32 values.
#include "core/codec/gguf_legacy.h"
#include "quantize/products/block_dots_cuda.cuh"
#include "quantize/products/block_product_cuda.cuh"

namespace bk {

template Status block_product<codec::Q40>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q41>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q50>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q51>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q80>(const Launch&, const BlockProduct&);
template Status block_dots<codec::Q40>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q41>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q50>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q51>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q80>(const Launch&, const BlockDots&);

}  // namespace bk
