// SPDX-License-Identifier: Apache-2.0
// The tiles of Hopper backward attention of f16 for each head dimension.
#include "attention/sm90/backward_launch.cuh"

namespace bk {

template Status backward_sm90a(const Launch&, const AttentionBackward<f16>&, bool*);

}  // namespace bk
