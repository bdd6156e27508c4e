// SPDX-License-Identifier: Apache-2.0
#include "core/topk/rank_rows.cuh"
#include "core/topk/top_k_cuda.cuh"

namespace bk {

BK_TOP_K(uint8_t)
BK_RANKS(uint8_t)

}  // namespace bk
