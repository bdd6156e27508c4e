// SPDX-License-Identifier: Apache-2.0
// Gradients of attention of bf16 by mma.sync.
#include "attention/sm80/backward_launch.cuh"

namespace bk {

template Status attention_backward_mma(const Launch&, const AttentionBackward<bf16>&, bool*);
template size_t attention_backward_mma_workspace(const AttentionBackward<bf16>&);

}  // namespace bk
