// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/floats/blockwise.h"

namespace bk::floats {

template <class T, class Codes>
Status run_blockwise(const Launch& launch, const BlockwiseJob<T, Codes>& job) {
    return run_blockwise_teams(launch, job);
}

}  // namespace bk::floats
