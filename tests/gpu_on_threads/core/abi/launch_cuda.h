// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/abi/launch_cuda.h: blocks run one after another, their threads as fibers.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "core/device.h"
#include "core/reference_chip.h"

namespace bk {

struct Grid {
    dim3 blocks;
    dim3 threads;
    unsigned cluster = 1;
    unsigned shared = 0;
    bool overlaps = false;
};

// Runs the blocks of a grid in order; several times if they are in clusters.
inline void run_grid(const Grid& grid, const std::function<void()>& kernel) {
    const std::lock_guard<std::mutex> alone(fibers::one_launch);
    static unsigned launches = 0;  // odd launches run in reverse order: results must not depend on the order of threads
    const bool reversed = launches++ & 1;
    fibers::body = [](void* p) { (*static_cast<const std::function<void()>*>(p))(); };
    fibers::body_argument = const_cast<std::function<void()>*>(&kernel);
    fibers::on_switch = [](unsigned t) {  // a switch costs less than a division
        threadIdx = t < blockDim.x ? uint3{t, 0, 0} : uint3{t % blockDim.x, t / blockDim.x, 0};
    };
    gridDim = grid.blocks;
    blockDim = grid.threads;
    fibers::threads = blockDim.x * blockDim.y;
    fibers::cluster = grid.cluster;
    for (int round = grid.cluster > 1 ? fibers::cluster_rounds : 1; round > 0; --round)
        for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
            for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
                for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) fibers::run_block(reversed);
}

inline Status submitted(device::Error error, const char* what) {
    if (error == device::kOk) return Status::kOk;
    return fail(Status::kInternal, "%s failed: invalid resource handle (cudaErrorInvalidResourceHandle)", what);
}

template <class... P, class... A>
Status launch_kernel(const Launch& launch, const Grid& grid, void (*kernel)(P...), const A&... arguments) {
    const unsigned threads = grid.threads.x * grid.threads.y;
    if (threads == 0 || threads > fibers::kMaxThreads || grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.y > 65535 ||
        grid.blocks.z == 0 || grid.blocks.z > 65535 || grid.shared > fibers::kMaxShared)
        return fail(Status::kInternal, "kernel launch failed: no such grid: %u, %u, %u blocks of %u threads", grid.blocks.x,
                    grid.blocks.y, grid.blocks.z, threads);
    std::tuple<P...> values{static_cast<P>(arguments)...};
    const std::function<void()> call = [kernel, values = std::move(values)] { std::apply(kernel, values); };
    return submitted(device::submit(launch.stream, [grid, call] { run_grid(grid, call); }), "kernel launch");
}

inline int device_arch() {
    constexpr int arch = __CUDA_ARCH_LIST__;
    return arch / 10;
}
inline int64_t device_sms() { return kReferenceSms; }
constexpr unsigned kDefaultSharedBytes = 48 << 10;
inline int64_t max_shared_bytes(int) { return 49152; }  // small, so that small problems exceed it
inline bool has_shared(int64_t bytes) { return bytes <= int64_t{fibers::kMaxShared}; }

inline Status fill_bytes(const Launch& launch, void* destination, int value, size_t bytes) {
    return submitted(device::submit(launch.stream, [=] { memset(destination, value, bytes); }), "cudaMemsetAsync");
}

constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int64_t kMaxGridY = 65535;

}  // namespace bk
