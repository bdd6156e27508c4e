// SPDX-License-Identifier: Apache-2.0
// The chip that kernels are divided for: an H100 SXM or H200.
#pragma once

#include <cstdint>

namespace bk {

// SMs of the reference chip. Splits that decide the order of a sum take this number on every chip, so that results keep
// their bits; grids that only share out work take device_sms() (core/abi/launch_cuda.h).
constexpr int64_t kReferenceSms = 132;

}  // namespace bk
