// SPDX-License-Identifier: Apache-2.0
// The formats that products take, by GGML type id: all but q8_1, which is that of activations.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/codec/formats.h"

namespace bk {

// visit(Numbered) of the format with this id.
template <class Visit>
Status with_product_format(int32_t id, const Visit& visit) {
    return codec::Formats::with(id, [&](auto format) {
        if constexpr (std::is_same_v<typename decltype(format)::type, codec::Q81>)
            return fail(Status::kUnsupported, "format is %d, q8_1, which is that of activations", id);
        else
            return visit(format);
    });
}

}  // namespace bk
