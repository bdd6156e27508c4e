// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/floats/mx.h"

namespace bk::floats {

template <class T>
Status run_mx_quantize(const Launch& launch, const MxQuantizeJob<T>& job) {
    return run_teams(launch, ceil_div(job.scales.count(), kBlocksOfTeam), kBlocksOfTeam * 64, job);
}

}  // namespace bk::floats
