// SPDX-License-Identifier: Apache-2.0
#include "core/topk/rank_rows.cuh"
#include "core/topk/top_k_cuda.cuh"

namespace bk {

BK_TOP_K(uint32_t)
BK_RANKS(uint32_t)

}  // namespace bk
