// SPDX-License-Identifier: Apache-2.0
// Tiled products with quantised weights by mma of bf16.
#include "quantize/products/tiled_product_cuda.cuh"

namespace bk {

Status tiled_product_bf16(const Launch& launch, const TiledProduct& p) { return launch_tiled_product<bf16>(launch, p); }

}  // namespace bk
