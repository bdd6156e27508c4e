// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's k-quants of five bits and less.
#include "core/codec/gguf_k.h"
#include "quantize/products/block_dots_cpu.h"
#include "quantize/products/block_product_cpu.h"

namespace bk {

template Status block_product<codec::Q2K>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q3K>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q4K>(const Launch&, const BlockProduct&);
template Status block_product<codec::Q5K>(const Launch&, const BlockProduct&);
template Status block_dots<codec::Q2K>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q3K>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q4K>(const Launch&, const BlockDots&);
template Status block_dots<codec::Q5K>(const Launch&, const BlockDots&);

}  // namespace bk
