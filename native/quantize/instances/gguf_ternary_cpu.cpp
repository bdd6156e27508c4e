// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's ternary formats.
#include "core/codec/gguf_ternary.h"
#include "quantize/products/block_product_cpu.h"

namespace bk {

template Status block_product<codec::Tq10>(const Launch&, const BlockProduct&);
template Status block_product<codec::Tq20>(const Launch&, const BlockProduct&);

}  // namespace bk
