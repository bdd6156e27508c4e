// SPDX-License-Identifier: Apache-2.0
// Copies a strided view to a dense array, by element width.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/pointwise/pointwise.h"
#include "shape_layout/extents.h"

namespace bk {

// Strides and offset count elements, nibbles included.
struct ViewShape {
    const int32_t* shape;
    const int64_t* source_strides;
    int64_t source_offset;
    int32_t rank;

    int64_t numel() const {
        int64_t strides[kMaxRank];
        return row_major(rank, shape, strides);
    }
    Work work() const { return all_or_none(numel()); }
    BK_COLD Status check_all() const {
        BK_TRY(require_rank(rank));
        int64_t count = 0;
        BK_TRY(count_elements("shape", rank, shape, &count));
        BK_TRY(require_array("source_strides", source_strides, rank));
        if (source_offset > kMaxOperandBytes || source_offset < -kMaxOperandBytes)
            return fail(Status::kInvalidProblem, "source_offset is %lld, more than 2^47 bytes away",
                        static_cast<long long>(source_offset));
        return Status::kOk;
    }
    BK_COLD Status locate(Operand* source, const char* name, Role role, int64_t bytes) const {
        BK_TRY(locate_strided(source, name, role, bytes, "source_strides", rank, shape, source_strides, nullptr));
        source->rank = 0;
        source->shape = nullptr;
        source->strides = nullptr;
        if (!source->has_elements()) return Status::kOk;
        source->low += source_offset * bytes, source->high += source_offset * bytes;
        source->origin = source_offset * bytes;
        source->has_gaps = true;
        return Status::kOk;
    }
    // Strides of the dense array, then of the view.
    BK_COLD CopyLayout layout() const {
        int64_t dense[kMaxRank];
        row_major(rank, shape, dense);
        CopyLayout layout;
        for (int32_t d = 0; d < rank; ++d) layout.append(shape[d], {dense[d], source_strides[d]});
        return layout;
    }
};

// An element is `count` words.
template <class Word, int count>
struct Contiguize : ViewShape {
    static constexpr int64_t kBytes = sizeof(Word) * count;

    int64_t words() const { return numel() * count; }
    Status check() const { return check_all(); }
    Status locate_source(Operand* source, const char* name, Role role, int64_t size) const {
        BK_TRY(locate(source, name, role, kBytes));
        source->size = size;
        return Status::kOk;
    }
    Status run(Word* dest, const Word* source, const Launch& launch) const {
        return copy_strided(launch, layout(), kBytes, source + source_offset * count, dest);
    }
};

// Element-wise functor for 4-bit views: packs two nibbles of the view into each byte of the dense array.
struct NibblesFunctor {
    Walk<1, uint64_t> walk;
    const uint8_t* source;
    int64_t offset, last;

    struct Segment {
        const NibblesFunctor& fn;
        int64_t byte;
        static constexpr int64_t count = INT64_MAX;
        BK_HD uint8_t operator()(int64_t k) const {
            const int64_t first = 2 * (byte + k);
            return static_cast<uint8_t>(fn.nibble(first) | (first < fn.last ? fn.nibble(first + 1) << 4 : 0));
        }
    };
    BK_HD Segment at(int64_t byte) const { return {*this, byte}; }
    BK_HD unsigned nibble(int64_t i) const {
        const int64_t nibble_index = offset + signed_offset(walk(static_cast<uint64_t>(i < last ? i : last)).of[0]);
        return (source[nibble_index >> 1] >> (nibble_index & 1 ? 4 : 0)) & 15u;
    }
};

struct ContiguizeNibble : ViewShape {
    int64_t bytes() const { return (numel() + 1) / 2; }
    BK_COLD Status check() const {
        BK_TRY(check_all());
        if (rank < 1) return fail(Status::kInvalidProblem, "rank is 0, must be in [1, 8]");
        const int64_t inner = source_strides[rank - 1];
        if (inner != 1 && inner != -1 && inner != 2)
            return fail(Status::kUnsupported, "source_strides[%d] is %lld, must be 1, -1 or 2", rank - 1,
                        static_cast<long long>(inner));
        return Status::kOk;
    }
    Status locate_source(Operand* source, const char* name, Role role, int64_t size) const {
        BK_TRY(locate(source, name, role, size));
        source->low = source->low >> 1;
        source->high = source->has_elements() ? (source->high + 1) >> 1 : source->high;
        return Status::kOk;
    }
    BK_COLD Status run(uint8_t* dest, const uint8_t* source, const Launch& launch) const {
        const CopyLayout nibbles = collapse(layout());
        if (copies_whole_bytes(nibbles)) {
            CopyLayout byte_layout;
            for (int d = 0; d < nibbles.rank; ++d) {
                const bool inner = d + 1 == nibbles.rank;
                const int64_t extent = inner ? nibbles.extent[d] / 2 : nibbles.extent[d];
                byte_layout.append(extent, {inner ? 1 : nibbles.stride[0][d] / 2, inner ? 1 : nibbles.stride[1][d] / 2});
            }
            return copy_strided(launch, byte_layout, 1, source + source_offset / 2, dest);
        }
        Layout<1> view;
        for (int32_t d = 0; d < rank; ++d) view.append(shape[d], {source_strides[d]});
        const NibblesFunctor fn{Walk<1, uint64_t>(view), source, source_offset, numel() - 1};
        return pointwise(launch, bytes(), fn, outputs(dest), inputs());
    }

private:
    // Whether both sides pair nibbles into whole bytes along the last axis, so that bytes can be copied.
    bool copies_whole_bytes(const CopyLayout& nibbles) const {
        const int last = nibbles.rank - 1;
        if (last < 0 || nibbles.stride[1][last] != 1 || nibbles.extent[last] % 2 != 0 || source_offset % 2 != 0) return false;
        for (int d = 0; d < last; ++d)
            if (nibbles.stride[0][d] % 2 != 0 || nibbles.stride[1][d] % 2 != 0) return false;
        return true;
    }
};

}  // namespace bk
