// SPDX-License-Identifier: Apache-2.0
// Tiled products with quantised weights by mma of f16.
#include "quantize/products/tiled_product_cuda.cuh"

namespace bk {

Status tiled_product_f16(const Launch& launch, const TiledProduct& p) { return launch_tiled_product<f16>(launch, p); }

}  // namespace bk
