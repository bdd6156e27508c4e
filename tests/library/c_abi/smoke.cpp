// SPDX-License-Identifier: Apache-2.0
// The header in C++17: prototypes with C linkage and exact types, the enumeration, and a call from several threads.
#include <baracuda_kernels.h>

#include <cstdio>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

static_assert(
    std::is_same<decltype(baracuda_kernels_segment_sum_f32_run)*,
                 int32_t (*)(int32_t, int32_t, int32_t, const void*, const void*, void*, void*, size_t, void*)>::value,
    "segment_sum_f32_run");
static_assert(std::is_same<decltype(baracuda_kernels_binary_lerp_f16_can_implement)*,
                           int32_t (*)(int64_t, const void*, const void*, const void*, float)>::value,
              "binary_lerp_f16_can_implement");
static_assert(BARACUDA_STATUS_INTERNAL == 5, "statuses are part of the ABI");

int main() {
    const std::vector<float> input = {1, 2, 3, 4};
    const std::vector<int32_t> ids = {0, 1, 1, 1};
    std::vector<int> good(4, 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            // Each thread fails with a text of its own and then succeeds.
            const int32_t status =
                baracuda_kernels_segment_sum_f32_run(-1 - t, 1, 2, nullptr, nullptr, nullptr, nullptr, 0, nullptr);
            const std::string text = baracuda_kernels_last_error();
            std::vector<float> output(2);
            const int32_t run =
                baracuda_kernels_segment_sum_f32_run(4, 1, 2, input.data(), ids.data(), output.data(), nullptr, 0, nullptr);
            good[t] = status == BARACUDA_STATUS_INVALID_PROBLEM && run == BARACUDA_STATUS_OK &&
                      text.rfind("segment_sum_f32: n is " + std::to_string(-1 - t), 0) == 0 && output[0] == 1 && output[1] == 9;
        });
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < 4; ++t)
        if (!good[t]) {
            std::fprintf(stderr, "failed on thread %d\n", t);
            return 1;
        }
    std::puts("ok");
    return 0;
}
