// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "optim/upload.h"

namespace bk::optim {

constexpr int kUploadWords = 1000, kUploadThreads = 256;

struct UploadArguments {
    uint32_t* to;
    int32_t words;
    uint32_t word[kUploadWords];
};

template <class Arguments>
__global__ void __launch_bounds__(kUploadThreads) upload_kernel(const __grid_constant__ Arguments a) {
    for (int w = static_cast<int>(threadIdx.x); w < a.words; w += kUploadThreads) a.to[w] = a.word[w];
}

template <class Count>
__global__ void advance_kernel(Count* step, const float* found_inf) {
    if (found_inf == nullptr || *found_inf == 0.0f) *step += 1;
}

inline Status copy_words(const Launch& launch, const void* from, void* to, int64_t words) {
    for (int64_t first = 0; first < words; first += kUploadWords) {
        UploadArguments a;
        a.to = static_cast<uint32_t*>(to) + first;
        a.words = static_cast<int32_t>(std::min<int64_t>(kUploadWords, words - first));
        memcpy(a.word, static_cast<const uint32_t*>(from) + first, static_cast<size_t>(a.words) * 4);
        BK_TRY(launch_kernel(launch, Grid{dim3(1), dim3(kUploadThreads)}, upload_kernel<UploadArguments>, a));
    }
    return Status::kOk;
}

inline Status advance_step(const Launch& launch, int64_t* step, const float* found_inf) {
    return launch_kernel(launch, Grid{dim3(1), dim3(1)}, advance_kernel<int64_t>, step, found_inf);
}

}  // namespace bk::optim
