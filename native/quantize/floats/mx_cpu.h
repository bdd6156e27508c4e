// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/floats/mx.h"

namespace bk::floats {

template <class T>
Status run_mx_quantize(const Launch& launch, const MxQuantizeJob<T>& job) {
    return run_block_teams(launch, job);
}

template <class T>
Status run_mx_dequantize(const Launch& launch, const MxDequantizeJob<T>& job) {
    const int64_t block = codec::MxLayout{job.format}.block(), numel = job.scales.rows * job.scales.blocks * block;
    return run_teams(launch, ceil_div(numel / kDecodedLanes<T>, kBlocksOfTeam), kBlocksOfTeam * 16, job);
}

}  // namespace bk::floats
