// SPDX-License-Identifier: Apache-2.0
// The block formats by their GGML type ids, for kernels that are chosen at run time.
#pragma once

#include <cstdint>

#include "core/abi/status.h"
#include "core/codec/gguf_floats.h"
#include "core/codec/gguf_iq.h"
#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"
#include "core/codec/gguf_ternary.h"

namespace bk::codec {

template <int32_t kId, class Format>
struct Numbered {
    static constexpr int32_t id = kId;
    using type = Format;
};

template <class... Each>
struct FormatList {
    // visit(Numbered) of the format with this id; kUnsupported if there is none.
    template <class Visit>
    static Status with(int32_t id, const Visit& visit) {
        Status status = Status::kUnsupported;
        const bool found = (... || (id == Each::id && (status = visit(Each{}), true)));
        return found ? status : fail(Status::kUnsupported, "format is %d, which is no block format", id);
    }
    // visit(Numbered) of the format with this id, if there is one: on the device too.
    template <class Visit>
    static BK_HD void visit(int32_t id, const Visit& visit) {
        static_cast<void>((... || (id == Each::id && (visit(Each{}), true))));
    }
};

using Formats =
    FormatList<Numbered<2, Q40>, Numbered<3, Q41>, Numbered<6, Q50>, Numbered<7, Q51>, Numbered<8, Q80>, Numbered<9, Q81>,
               Numbered<10, Q2K>, Numbered<11, Q3K>, Numbered<12, Q4K>, Numbered<13, Q5K>, Numbered<14, Q6K>, Numbered<15, Q8K>,
               Numbered<16, Iq2Xxs>, Numbered<17, Iq2Xs>, Numbered<18, Iq3Xxs>, Numbered<19, Iq1S>, Numbered<20, Iq4Nl>,
               Numbered<21, Iq3S>, Numbered<22, Iq2S>, Numbered<23, Iq4Xs>, Numbered<29, Iq1M>, Numbered<34, Tq10>,
               Numbered<35, Tq20>, Numbered<39, Mxfp4>, Numbered<40, Nvfp4>>;

// Values and bytes of a block of a format; 0 if there is no such format.
struct BlockSize {
    int32_t values, bytes;
    static BlockSize of(int32_t id) {
        BlockSize size{0, 0};
        const Status status = Formats::with(id, [&](auto format) {
            using Format = typename decltype(format)::type;
            size = {Format::kBlock, Format::kBytes};
            return Status::kOk;
        });
        return status == Status::kOk ? size : BlockSize{0, 0};
    }
};

}  // namespace bk::codec
