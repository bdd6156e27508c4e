// SPDX-License-Identifier: Apache-2.0
// A Carver measures and carves a workspace by one text: with a null base it only counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"

namespace bk {

class Carver {
public:
    static constexpr size_t kAlignment = 256;

    explicit Carver(void* base = nullptr) {
        const uintptr_t address = reinterpret_cast<uintptr_t>(base);
        base_ = base == nullptr ? nullptr : static_cast<char*>(base) + (kAlignment - address % kAlignment) % kAlignment;
    }

    template <class T>
    T* take(int64_t count) {
        T* const result = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
        const bool fits = count >= 0 && static_cast<uint64_t>(count) <= kMost / sizeof(T);
        const size_t bytes = fits ? static_cast<size_t>(count) * sizeof(T) : kMost;
        used_ = std::min(used_ + (bytes + kAlignment - 1) / kAlignment * kAlignment, kMost);
        return result;
    }

    // Bytes taken, plus what aligning the caller's pointer may cost.
    size_t bytes() const { return used_ == 0 ? 0 : used_ + kAlignment - 1; }

private:
    // Saturation limit, far above any workspace of operands that exist.
    static constexpr size_t kMost = size_t{1} << 62;

    char* base_ = nullptr;
    size_t used_ = 0;
};

// Whether the caller's workspace has the needed bytes. A shorter one counts as none: callers written for the reference
// ABI pass its sizes, which differ from ours.
inline bool workspace_holds(const Launch& launch, size_t needed) {
    return needed > 0 && launch.workspace != nullptr && launch.workspace_bytes >= needed;
}

// The workspace aligned for T, or null if `count` elements do not fit.
template <class T>
T* workspace_array(const Launch& launch, int64_t count) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(launch.workspace);
    const size_t gap = (alignof(T) - address % alignof(T)) % alignof(T);
    return workspace_holds(launch, gap + static_cast<size_t>(count) * sizeof(T)) ? reinterpret_cast<T*>(address + gap)
                                                                                 : nullptr;
}

// The launch with the workspace that remains after `end`, for a nested op.
inline Launch launch_with_workspace_from(const Launch& launch, void* end) {
    const char* const last = static_cast<const char*>(launch.workspace) + launch.workspace_bytes;
    return {end, static_cast<size_t>(last - static_cast<const char*>(end)), launch.stream};
}

}  // namespace bk
