// SPDX-License-Identifier: Apache-2.0
// The CUDA cores of fused attention, and the choice among them: Hopper's wgmma, mma.sync, and FMA, which serves every
// problem. Each is asked in this order and says whether it takes the problem.
#include <algorithm>

#include "attention/flash/backward_simt.cuh"
#include "attention/flash/forward_simt.cuh"
#include "attention/flash/problem.h"
#include "attention/sm80/mma.h"
#include "attention/sm90/backward_wgmma.h"
#include "attention/sm90/forward_wgmma.h"

namespace bk {

template <class T>
constexpr bool kHasTensorCores = sizeof(T) == 2;

template <class T>
Status attention_forward(const Launch& launch, const AttentionForward<T>& p) {
    if constexpr (kHasTensorCores<T>) {
        bool is_taken = false;
        BK_TRY(attention_forward_wgmma(launch, p, &is_taken));
        if (!is_taken) BK_TRY(attention_forward_mma(launch, p, &is_taken));
        if (is_taken) return Status::kOk;
    }
    return attention_simt::forward(launch, p);
}

template <class T>
size_t attention_forward_workspace(const AttentionForward<T>& p) {
    if constexpr (kHasTensorCores<T>) return std::max(kForwardWgmmaWorkspace, attention_forward_mma_workspace(p));
    return 0;
}

template <class T>
Status attention_backward(const Launch& launch, const AttentionBackward<T>& p) {
    if constexpr (kHasTensorCores<T>) {
        bool is_taken = false;
        BK_TRY(attention_backward_wgmma(launch, p, &is_taken));
        if (!is_taken) BK_TRY(attention_backward_mma(launch, p, &is_taken));
        if (is_taken) return Status::kOk;
    }
    return attention_simt::backward(launch, p);
}

template <class T>
size_t attention_backward_workspace(const AttentionBackward<T>& p) {
    const size_t bytes = attention_simt::backward_workspace(p);
    if constexpr (kHasTensorCores<T>)
        return std::max({bytes, attention_backward_mma_workspace(p), attention_backward_wgmma_workspace(p)});
    return bytes;
}

#define BK_ATTENTION(T)                                                                         \
    template Status attention_forward<T>(const Launch& launch, const AttentionForward<T>& p);   \
    template size_t attention_forward_workspace<T>(const AttentionForward<T>& p);               \
    template Status attention_backward<T>(const Launch& launch, const AttentionBackward<T>& p); \
    template size_t attention_backward_workspace<T>(const AttentionBackward<T>& p);

BK_ATTENTION(float)
BK_ATTENTION(f16)
BK_ATTENTION(bf16)
BK_ATTENTION(double)

#undef BK_ATTENTION

}  // namespace bk
