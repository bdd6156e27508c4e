// SPDX-License-Identifier: Apache-2.0
// The tiles of Hopper backward attention of bf16 for each head dimension.
#include "attention/sm90/backward_launch.cuh"

namespace bk {

template Status backward_sm90a(const Launch&, const AttentionBackward<bf16>&, bool*);

}  // namespace bk
