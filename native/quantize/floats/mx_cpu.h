// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/floats/mx.h"

namespace bk::floats {

template <class T>
Status run_mx_quantize(const Launch& launch, const MxQuantizeJob<T>& job) {
    return run_block_teams(launch, job);
}

}  // namespace bk::floats
