// Transposition of blocks of memory on the CPU, for every op that crosses the order of its operands.
#pragma once

#include <cstdint>

namespace bk {

// to[r * to_step + c] = from[c * from_step + r] for r < rows, c < columns: elements of `bytes` bytes, 1, 2, 4 or 8. Blocks
// should fit the first cache.
void transpose(int bytes, void* to, int64_t to_step, const void* from, int64_t from_step, int64_t rows, int64_t columns);

}  // namespace bk
