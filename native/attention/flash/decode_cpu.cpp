// SPDX-License-Identifier: Apache-2.0
// Attention over caches of 8-bit elements.
#include "attention/flash/decode_rows.h"

namespace bk {

template <class T, class KV>
Status attention_decode(const Launch& launch, const AttentionForward<T, KV>& p) {
    return decode_by_rows(launch, p);
}

template <class T, class KV>
size_t attention_decode_workspace(const AttentionForward<T, KV>&) {
    return 0;
}

#define BK_DECODE(T, KV)                                                             \
    template Status attention_decode(const Launch&, const AttentionForward<T, KV>&); \
    template size_t attention_decode_workspace(const AttentionForward<T, KV>&);

BK_DECODE(f16, int8_t)
BK_DECODE(bf16, int8_t)
BK_DECODE(f16, e4m3)
BK_DECODE(f16, e5m2)
BK_DECODE(bf16, e4m3)
BK_DECODE(bf16, e5m2)

#undef BK_DECODE

}  // namespace bk
