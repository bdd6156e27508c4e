// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/intrinsics/async_copy.cuh: asynchronous copies that complete as late as the waits allow.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/platform.h"

namespace bk {

// Memory that copies may read, if a test restricts it.
struct Readable {
    const char *low, *high;
};
inline std::vector<Readable> readable;

struct Copy {
    void* to;
    const void* from;
    int bytes, all;
};
// Outstanding copies of a thread; those of an earlier block are dropped.
struct OwnCopies {
    unsigned block = 0;
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
};

inline OwnCopies& own_copies() {
    static OwnCopies of[fibers::kMaxThreads];
    OwnCopies& own = of[fibers::current];
    if (own.block != fibers::blocks_run) own = OwnCopies{};
    own.block = fibers::blocks_run;
    return own;
}

inline void require(bool holds, const char* what) {
    if (!holds) fibers::die(what);
}

inline void start_copy_of(void* to, const void* from, int bytes, int all) {
    const char* first = static_cast<const char*>(from);
    const auto is_aligned = [all](const void* p) { return reinterpret_cast<uintptr_t>(p) % static_cast<unsigned>(all) == 0; };
    require(is_aligned(to) && is_aligned(from), "a copy is misaligned");
    bool inside = bytes == 0 || readable.empty();
    for (const Readable& r : readable) inside = inside || (first >= r.low && first + bytes <= r.high);
    require(inside && bytes >= 0 && bytes <= all, "a copy reads outside");
    own_copies().open.push_back({to, from, bytes, all});
}

template <bool kReused>
uint64_t cache_policy() {
    return kReused;
}

template <int kBytes>
void start_copy(void* to, const void* from, uint64_t) {
    start_copy_of(to, from, kBytes, kBytes);
}

inline void start_copy_16(void* to, const void* from, int bytes) { start_copy_of(to, from, bytes, 16); }
inline void start_copy_4(void* to, const void* from, bool is_there) { start_copy_of(to, from, is_there ? 4 : 0, 4); }

inline void end_copy_group() {
    own_copies().groups.push_back(own_copies().open);
    own_copies().open.clear();
}

// Completes copies only here, so that a kernel that waits for too few reads stale data.
template <int kPending>
void wait_for_copies() {
    auto& groups = own_copies().groups;
    while (static_cast<int>(groups.size()) > kPending) {
        for (const Copy& copy : groups.front()) {
            memset(copy.to, 0, static_cast<size_t>(copy.all));
            if (copy.bytes > 0) memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
        }
        groups.erase(groups.begin());
    }
}

}  // namespace bk
