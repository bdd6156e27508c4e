// SPDX-License-Identifier: Apache-2.0
// Attention over 8-bit keys and values by mma.sync.
#include "attention/sm80/decode_launch.cuh"

namespace bk {

template Status attention_decode_mma(const Launch&, const AttentionForward<f16, e4m3>&, bool*);
template Status attention_decode_mma(const Launch&, const AttentionForward<f16, e5m2>&, bool*);
template Status attention_decode_mma(const Launch&, const AttentionForward<bf16, e4m3>&, bool*);
template Status attention_decode_mma(const Launch&, const AttentionForward<bf16, e5m2>&, bool*);
template size_t attention_decode_mma_workspace(const AttentionForward<f16, e4m3>&);
template size_t attention_decode_mma_workspace(const AttentionForward<f16, e5m2>&);
template size_t attention_decode_mma_workspace(const AttentionForward<bf16, e4m3>&);
template size_t attention_decode_mma_workspace(const AttentionForward<bf16, e5m2>&);

}  // namespace bk
