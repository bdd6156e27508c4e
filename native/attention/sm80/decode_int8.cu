// SPDX-License-Identifier: Apache-2.0
// Attention over keys and values of 8-bit integers by mma.sync.
#include "attention/sm80/decode_launch.cuh"

namespace bk {

template Status attention_decode_mma(const Launch&, const AttentionForward<f16, int8_t>&, bool*);
template Status attention_decode_mma(const Launch&, const AttentionForward<bf16, int8_t>&, bool*);
template size_t attention_decode_mma_workspace(const AttentionForward<f16, int8_t>&);
template size_t attention_decode_mma_workspace(const AttentionForward<bf16, int8_t>&);

}  // namespace bk
