// Stands in for native/core/abi/launch_cuda.h: runs a kernel's blocks one after another, a fiber each for their threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <tuple>

#include "core/abi/launch.h"
#include "core/abi/status.h"

namespace bk {

struct Grid {
    dim3 blocks;
    dim3 threads;
    unsigned cluster = 1;
    unsigned shared = 0;
};

template <class... P, class... A>
Status launch_kernel(const Launch&, const Grid& grid, void (*kernel)(P...), const A&... arguments) {
    const std::lock_guard<std::mutex> alone(fibers::one_launch);
    static unsigned launches = 0;  // what does not depend on the order of threads has the same results from launch to launch
    const bool reversed = launches++ & 1;
    auto call = [&] { kernel(static_cast<P>(arguments)...); };
    fibers::body = [](void* p) { (*static_cast<decltype(call)*>(p))(); };
    fibers::body_argument = &call;
    fibers::on_switch = [](unsigned t) { threadIdx = {t % blockDim.x, t / blockDim.x, 0}; };
    gridDim = grid.blocks;
    blockDim = grid.threads;
    fibers::threads = blockDim.x * blockDim.y;
    if (fibers::threads == 0 || fibers::threads > fibers::kMostThreads || gridDim.x == 0 || gridDim.y == 0 ||
        gridDim.y > 65535 || gridDim.z == 0 || gridDim.z > 65535 || grid.shared > 49152)
        return fail(Status::kInternal, "kernel launch failed: no such grid: %u, %u, %u blocks of %u threads", gridDim.x,
                    gridDim.y, gridDim.z, fibers::threads);
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) fibers::run_block(reversed);
    return Status::kOk;
}

inline int device_arch() { return 80; }

inline Status fill_bytes(const Launch&, void* destination, int value, size_t bytes) {
    memset(destination, value, bytes);
    return Status::kOk;
}

constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int64_t kMaxGridY = 65535;

}  // namespace bk
