// SPDX-License-Identifier: Apache-2.0
// 8-bit floats with f32 scales on the CPU: tiles.
#pragma once

#include "quantize/floats/fp8_blocks.h"

namespace bk::floats {

template <class T>
Status run_fp8_quantize(const Launch& launch, const Fp8QuantizeJob<T>& job) {
    if (job.scales.is_global()) BK_TRY(run_fp8_maxima(launch, job));
    return run_teams(launch, job.tiles(), kFp8TileBytes, job, true);
}

}  // namespace bk::floats
