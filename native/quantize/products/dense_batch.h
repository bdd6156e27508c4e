// SPDX-License-Identifier: Apache-2.0
// The batched product of dispatches with weights that are not quantised.
#pragma once

#include "quantize/products/block_product.h"

namespace bk {

// block_product() with dispatches, where `weights` has rows of k elements of `dtype`.
Status dense_dispatches(const Launch& launch, const BlockProduct& p);

}  // namespace bk
