// SPDX-License-Identifier: Apache-2.0
#include "core/topk/top_k_cuda.cuh"

namespace bk {

BK_TOP_K(uint32_t)

}  // namespace bk
