// SPDX-License-Identifier: Apache-2.0
// Attention over caches of 8-bit floats.
#include "attention/flash/decode_rows.h"

namespace bk {

template <class T, class KV>
Status attention_decode(const Launch& launch, const AttentionForward<T, KV>& p) {
    return decode_by_rows(launch, p);
}

template Status attention_decode(const Launch&, const AttentionForward<f16, e4m3>&);
template Status attention_decode(const Launch&, const AttentionForward<f16, e5m2>&);
template Status attention_decode(const Launch&, const AttentionForward<bf16, e4m3>&);
template Status attention_decode(const Launch&, const AttentionForward<bf16, e5m2>&);

}  // namespace bk
