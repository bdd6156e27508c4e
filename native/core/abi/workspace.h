// A workspace is measured and carved by the same walk: with a null base the walk only counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/status.h"

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
        used_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return result;
    }

    // Bytes taken, and what aligning the caller's pointer may cost.
    size_t bytes() const { return used_ == 0 ? 0 : used_ + kAlignment - 1; }

private:
    char* base_ = nullptr;
    size_t used_ = 0;
};

// Whether the caller brought a workspace. One that is too short is an error, so that no guarantee is lost silently.
inline Status find_workspace(const Launch& launch, size_t needed, bool* found) {
    *found = needed > 0 && launch.workspace != nullptr && launch.workspace_bytes > 0;
    if (*found && launch.workspace_bytes < needed)
        return fail(Status::kWorkspaceTooSmall, "workspace_bytes is %zu, must be 0 or >= %zu", launch.workspace_bytes, needed);
    return Status::kOk;
}

}  // namespace bk
