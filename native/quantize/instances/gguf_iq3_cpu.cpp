// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's codebooks of three bits.
#include "core/codec/gguf_iq.h"
#include "quantize/products/block_product_cpu.h"

namespace bk {

template Status block_product<codec::Iq3Xxs>(const Launch&, const BlockProduct&);
template Status block_product<codec::Iq3S>(const Launch&, const BlockProduct&);

}  // namespace bk
