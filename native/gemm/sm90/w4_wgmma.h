// SPDX-License-Identifier: Apache-2.0
// int4-weight GEMM by wgmma, for many rows: interface of gemm/sm90/w4_sm90a.cu.
#pragma once

#include <cstdint>

#include "core/abi/arch.h"
#include "gemm/w4.h"

namespace bk {

// *is_taken tells whether the GEMM was computed: operands are aligned to 16 bytes and K >= 128.
Status marlin_sm90a(const Launch& launch, const MarlinProduct& p, bool* is_taken);
Status awq_sm90a(const Launch& launch, const AwqProduct& p, bool* is_taken);

}  // namespace bk
