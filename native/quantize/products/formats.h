// SPDX-License-Identifier: Apache-2.0
// The formats that products take, by GGML type id.
#pragma once

#include <cstdint>

#include "core/abi/status.h"
#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"

namespace bk {

template <class Format>
struct ProductFormat {
    using Type = Format;
};

// visit(ProductFormat) of the format with this id.
template <class Visit>
Status with_product_format(int32_t id, const Visit& visit) {
    switch (id) {
        case 2: return visit(ProductFormat<codec::Q40>{});
        case 3: return visit(ProductFormat<codec::Q41>{});
        case 6: return visit(ProductFormat<codec::Q50>{});
        case 7: return visit(ProductFormat<codec::Q51>{});
        case 8: return visit(ProductFormat<codec::Q80>{});
        case 10: return visit(ProductFormat<codec::Q2K>{});
        case 11: return visit(ProductFormat<codec::Q3K>{});
        case 12: return visit(ProductFormat<codec::Q4K>{});
        case 13: return visit(ProductFormat<codec::Q5K>{});
        case 14: return visit(ProductFormat<codec::Q6K>{});
        case 15: return visit(ProductFormat<codec::Q8K>{});
        default: return fail(Status::kUnsupported, "format is %d, which is no block format of weights", id);
    }
}

// Bytes of a row of k values; 0 for an unknown format.
inline int64_t row_bytes_of(int32_t id, int64_t k) {
    int64_t bytes = 0;
    const Status status = with_product_format(id, [&](auto chosen) {
        using Format = typename decltype(chosen)::Type;
        bytes = k / Format::kBlock * Format::kBytes;
        return Status::kOk;
    });
    return status == Status::kOk ? bytes : 0;
}

}  // namespace bk
