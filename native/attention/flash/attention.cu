// SPDX-License-Identifier: Apache-2.0
// The CUDA cores of fused attention, and the choice among them.
#include "attention/flash/problem.h"

#include "attention/flash/backward_simt.cuh"
#include "attention/flash/forward_simt.cuh"

namespace bk {

// The core on FMA serves every problem; those on tensor cores are asked first and say which they take.
template <class T>
Status attention_forward(const Launch& launch, const AttentionForward<T>& p) {
    return attention_simt::forward(launch, p);
}

template <class T>
size_t attention_forward_workspace(const AttentionForward<T>&) {
    return 0;
}

template <class T>
Status attention_backward(const Launch& launch, const AttentionBackward<T>& p) {
    return attention_simt::backward(launch, p);
}

template <class T>
size_t attention_backward_workspace(const AttentionBackward<T>& p) {
    return attention_simt::backward_workspace(p);
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
