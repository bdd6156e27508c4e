// SPDX-License-Identifier: Apache-2.0
// int4-weight GEMM by wgmma, for many rows: interface of gemm/sm90/w4_sm90a.cu.
#pragma once

#include <cstdint>

#include "core/abi/arch.h"
#include "gemm/w4.h"

namespace bk {

constexpr int kW4WgmmaK = 128, kW4WgmmaColumns = 128;  // K elements of a stage, and columns of a tile

// Compute a GEMM of operands aligned to 16 bytes, K >= kW4WgmmaK, by tiles of `tile_m` rows, 64 or 128.
Status marlin_sm90a(const Launch& launch, const MarlinProduct& p, int tile_m);
Status awq_sm90a(const Launch& launch, const AwqProduct& p, int tile_m);

}  // namespace bk
