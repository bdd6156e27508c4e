// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's k-quants of six and eight bits.
#include "core/codec/gguf_k.h"
#include "quantize/products/block_dots_cpu.h"
#include "quantize/products/block_product_cpu.h"

namespace bk {

template Status block_product<codec::Q6K>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q8K>(const Launch&, const BlockProduct&);
template Status block_dots<codec::Q6K>(const Launch&, const BlockDots&);

}  // namespace bk
