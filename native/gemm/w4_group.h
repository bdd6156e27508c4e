// Products of many rows with weights of four bits by warp groups (sm_90a): what the file for that chip offers.
#pragma once

#include <cstdint>

#include "core/abi/arch.h"
#include "gemm/w4.h"

namespace bk {

// Whether *is_taken, which they say, operands are aligned to 16 bytes and there are 128 terms.
Status marlin_sm90a(const Launch& launch, const MarlinProduct& p, bool* is_taken);
Status awq_sm90a(const Launch& launch, const AwqProduct& p, bool* is_taken);

}  // namespace bk
