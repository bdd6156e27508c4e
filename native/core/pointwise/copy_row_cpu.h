// A copy of one row among many.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/compiler_cpu.h"
#include "core/platform.h"

namespace bk {

// Forwards, in pieces of 64 bytes, the last of which may lie over the one before.
BK_COLD BK_KEEPS_COPIES inline void copy_forwards(char* to, const char* from, size_t bytes) {
    for (size_t at = 0; at + 64 <= bytes; at += 64) memcpy(to + at, from + at, 64);
    memcpy(to + bytes - 64, from + bytes - 64, 64);
}

// `bytes` of a row; to and from are apart, or the same. glibc copies rows of this length backwards where both lie alike in
// their pages, as rows of tensors do: from memory that took 2.4 times as long (1.5 and 2 KiB, AMD EPYC). For short rows it
// has no loop, and long ones it leaves to the processor.
inline void copy_row(void* to, const void* from, size_t bytes) {
    constexpr size_t kLeast = 512, kMost = 8192;
    if (bytes > kLeast && bytes <= kMost)
        copy_forwards(static_cast<char*>(to), static_cast<const char*>(from), bytes);
    else
        memmove(to, from, bytes);
}

}  // namespace bk
