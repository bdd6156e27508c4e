// Stands in for native/core/abi/launch_cuda.h: runs a kernel's blocks one after another, a thread each for theirs.
#pragma once

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

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
Status launch_kernel(const Launch&, const Grid& grid, void (*kernel)(P...), A&&... arguments) {
    gridDim = grid.blocks;
    blockDim = grid.threads;
    pthread_barrier_init(&block_barrier, nullptr, grid.threads.x);
    for (unsigned int w = 0; w < grid.threads.x / 32; ++w) pthread_barrier_init(&warp_barrier[w], nullptr, 32);
    std::vector<std::thread> threads;
    for (unsigned int t = 0; t < grid.threads.x; ++t)
        threads.emplace_back([&, t] {
            threadIdx = {t, 0, 0};
            for (unsigned int y = 0; y < grid.blocks.y; ++y)
                for (unsigned int x = 0; x < grid.blocks.x; ++x) {
                    blockIdx = {x, y, 0};
                    kernel(static_cast<P>(arguments)...);
                    pthread_barrier_wait(&block_barrier);  // shared memory is the next block's
                }
        });
    for (std::thread& thread : threads) thread.join();
    for (unsigned int w = 0; w < grid.threads.x / 32; ++w) pthread_barrier_destroy(&warp_barrier[w]);
    pthread_barrier_destroy(&block_barrier);
    return Status::kOk;
}

// Blocks take turns, so that there are no clusters of them.
inline int device_arch() { return 80; }

inline Status fill_bytes(const Launch&, void* destination, int value, size_t bytes) {
    memset(destination, value, bytes);
    return Status::kOk;
}

constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int64_t kMaxGridY = 65535;

}  // namespace bk
