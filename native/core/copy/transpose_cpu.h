// SPDX-License-Identifier: Apache-2.0
// Transposes blocks of memory on the CPU, for every op whose operands differ in their fastest axis.
#pragma once

#include <cstdint>

namespace bk {

// to[r * to_step + c] = from[c * from_step + r] for r < rows, c < columns; elements have 1, 2, 4 or 8 bytes. Blocks
// should fit L1.
void transpose(int bytes, void* to, int64_t to_step, const void* from, int64_t from_step, int64_t rows, int64_t columns);

}  // namespace bk
