// SPDX-License-Identifier: Apache-2.0
// Gradients of attention of f16 by mma.sync.
#include "attention/sm80/backward_launch.cuh"

namespace bk {

template Status attention_backward_mma(const Launch&, const AttentionBackward<f16>&, bool*);
template size_t attention_backward_mma_workspace(const AttentionBackward<f16>&);

}  // namespace bk
