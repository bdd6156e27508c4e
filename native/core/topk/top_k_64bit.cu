// SPDX-License-Identifier: Apache-2.0
#include "core/topk/rank_rows.cuh"
#include "core/topk/top_k_cuda.cuh"

namespace bk {

BK_TOP_K(uint64_t)
BK_RANKS(uint64_t)

}  // namespace bk
