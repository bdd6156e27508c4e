// SPDX-License-Identifier: Apache-2.0
// Attention by mma.sync, for f16 and bf16 on sm_80 and newer. Each function sets *is_taken to whether it serves the
// problem; if not, it does nothing.
//
// Limits: d_k and d_v up to 256 (forward: 576 and 512), fewer than 2^30 queries and keys. Weights are left to other cores, and
// so are gradients of paged keys.
#pragma once

#include <cstddef>

#include "attention/flash/problem.h"

namespace bk {

// Few rows that share keys go to attention_decode_mma. Without the workspace the keys of a row are not split.
template <class T>
Status attention_forward_mma(const Launch& launch, const AttentionForward<T>& p, bool* is_taken);
template <class T>
size_t attention_forward_mma_workspace(const AttentionForward<T>& p);

// The workspace is required: without it the problem is not taken.
template <class T>
Status attention_backward_mma(const Launch& launch, const AttentionBackward<T>& p, bool* is_taken);
template <class T>
size_t attention_backward_mma_workspace(const AttentionBackward<T>& p);

// KV is T, e4m3, e5m2 or int8_t. It reads the keys once for each 16 rows of a group of query heads.
template <class T, class KV>
Status attention_decode_mma(const Launch& launch, const AttentionForward<T, KV>& p, bool* is_taken);
template <class T, class KV>
size_t attention_decode_mma_workspace(const AttentionForward<T, KV>& p);

}  // namespace bk
