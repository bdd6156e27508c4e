// SPDX-License-Identifier: Apache-2.0
// Forward attention of f16 and bf16 by mma.sync.
#include "attention/sm80/forward_launch.cuh"

namespace bk {

template Status attention_forward_mma(const Launch&, const AttentionForward<f16>&, bool*);
template Status attention_forward_mma(const Launch&, const AttentionForward<bf16>&, bool*);
template size_t attention_forward_mma_workspace(const AttentionForward<f16>&);
template size_t attention_forward_mma_workspace(const AttentionForward<bf16>&);

}  // namespace bk
