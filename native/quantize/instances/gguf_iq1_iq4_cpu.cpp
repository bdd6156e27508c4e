// SPDX-License-Identifier: Apache-2.0
// Products with weights of GGUF's codebooks of one and four bits.
#include "core/codec/gguf_iq.h"
#include "quantize/products/block_product_cpu.h"

namespace bk {

template Status block_product<codec::Iq1S>(const Launch&, const BlockProduct&);
template Status block_product<codec::Iq1M>(const Launch&, const BlockProduct&);
template Status block_product<codec::Iq4Nl>(const Launch&, const BlockProduct&);
template Status block_product<codec::Iq4Xs>(const Launch&, const BlockProduct&);

}  // namespace bk
