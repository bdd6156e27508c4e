// SPDX-License-Identifier: Apache-2.0
// Attention of few rows over 16-bit keys and values by mma.sync.
#include "attention/sm80/decode_launch.cuh"

namespace bk {

template Status attention_decode_mma(const Launch&, const AttentionForward<f16>&, bool*);
template Status attention_decode_mma(const Launch&, const AttentionForward<bf16>&, bool*);
template size_t attention_decode_mma_workspace(const AttentionForward<f16>&);
template size_t attention_decode_mma_workspace(const AttentionForward<bf16>&);

}  // namespace bk
