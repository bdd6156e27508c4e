// SPDX-License-Identifier: Apache-2.0
// Writes a dense array into a window of another one, by element width.
#pragma once

#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "shape_layout/extents.h"

namespace bk {

struct WindowNames {
    const char *count, *dest_shape, *source_shape, *range_start;
};
constexpr WindowNames kWindow = {"source_numel", "dest_shape", "source_shape", "range_start"};
constexpr WindowNames kByteWindow = {"source_byte_numel", "dest_byte_shape", "source_byte_shape", "range_start_bytes"};

// The window begins at `start`; along start_axis the offset is read on the device.
struct Window {
    int64_t source_numel;
    int32_t rank;
    const int32_t* dest_shape;
    const int32_t* source_shape;
    const int32_t* start;
    int32_t start_axis = -1;

    int64_t dest_numel() const {
        int64_t strides[kMaxRank];
        return row_major(rank, dest_shape, strides);
    }
    BK_COLD Status check(const WindowNames& name) const {
        if (rank < 1 || rank > kMaxRank) return fail(Status::kInvalidProblem, "rank is %d, must be in [1, %d]", rank, kMaxRank);
        BK_TRY(require_non_negative({{name.count, source_numel}}));
        int64_t count = 0;
        BK_TRY(count_elements(name.dest_shape, rank, dest_shape, &count));
        BK_TRY(count_elements(name.source_shape, rank, source_shape, &count));
        if (count != source_numel)
            return fail(Status::kInvalidProblem, "%s is %lld, but %s has %lld elements", name.count,
                        static_cast<long long>(source_numel), name.source_shape, static_cast<long long>(count));
        BK_TRY(require_array(name.range_start, start, rank));
        for (int32_t d = 0; d < rank; ++d)
            if (d != start_axis && (start[d] < 0 || int64_t{start[d]} + source_shape[d] > dest_shape[d]))
                return fail(Status::kInvalidProblem, "%s[%d] is %d: %d elements from there on are not inside of %s[%d], %d",
                            name.range_start, d, start[d], source_shape[d], name.dest_shape, d, dest_shape[d]);
        return Status::kOk;
    }
    // Offset of the window in dest, in elements.
    int64_t offset() const {
        int64_t strides[kMaxRank], sum = 0;
        row_major(rank, dest_shape, strides);
        for (int32_t d = 0; d < rank; ++d) sum += d == start_axis ? 0 : start[d] * strides[d];
        return sum;
    }
    BK_COLD Status write(const Launch& launch, int bytes, const void* source, void* dest) const {
        int64_t from[kMaxRank], to[kMaxRank];
        row_major(rank, source_shape, from);
        row_major(rank, dest_shape, to);
        CopyLayout layout;
        for (int32_t d = 0; d < rank; ++d) layout.append(source_shape[d], {to[d], from[d]});
        return copy_strided(launch, layout, bytes, source, static_cast<char*>(dest) + offset() * bytes);
    }
    BK_COLD Status write_from(const Launch& launch, int bytes, const int64_t* device_start, const void* source,
                              void* dest) const {
        int64_t from[kMaxRank], to[kMaxRank];
        row_major(rank, source_shape, from);
        row_major(rank, dest_shape, to);
        MappedCopy copy;
        copy.rank = rank;
        for (int32_t d = 0; d < rank; ++d) copy.axis[d] = {source_shape[d], source_shape[d], 0, to[d], from[d]};
        copy.start = device_start;
        copy.start_axis = start_axis;
        copy.limit = dest_shape[start_axis];
        return copy_mapped(launch, copy, bytes, source, static_cast<char*>(dest) + offset() * bytes);
    }
};

// An element is `count` words.
template <class Word, int count>
struct WriteSlice {
    int64_t source_numel;
    int32_t rank;
    const int32_t* dest_shape;
    const int32_t* source_shape;
    const int32_t* range_start;

    Work work() const { return all_or_none(source_numel); }
    Status check() const { return window().check(kWindow); }
    int64_t dest_words() const { return window().dest_numel() * count; }
    int64_t source_words() const { return source_numel * count; }
    Status run(Word* dest, const Word* source, const Launch& launch) const {
        return window().write(launch, sizeof(Word) * count, source, dest);
    }

private:
    Window window() const { return {source_numel, rank, dest_shape, source_shape, range_start}; }
};

template <class Word, int count = 1>
struct WriteSliceFrom {
    int64_t source_numel;
    int32_t rank;
    const int32_t* dest_shape;
    const int32_t* source_shape;
    const int32_t* range_start;
    int32_t dyn_axis;

    Work work() const { return all_or_none(source_numel); }
    Status check() const {
        BK_TRY(window().check(kWindow));
        BK_TRY(require_axis("dyn_axis", dyn_axis, rank));
        return Status::kOk;
    }
    int64_t dest_words() const { return window().dest_numel() * count; }
    int64_t source_words() const { return source_numel * count; }
    Status run(Word* dest, const Word* source, const int64_t* dyn_start_dev, const Launch& launch) const {
        return window().write_from(launch, sizeof(Word) * count, dyn_start_dev, source, dest);
    }

private:
    Window window() const { return {source_numel, rank, dest_shape, source_shape, range_start, dyn_axis}; }
};

// 4-bit elements in pairs, by bytes.
struct WriteSliceNibble {
    int64_t source_byte_numel;
    int32_t rank;
    const int32_t* dest_byte_shape;
    const int32_t* source_byte_shape;
    const int32_t* range_start_bytes;

    Work work() const { return all_or_none(source_byte_numel); }
    Status check() const { return window().check(kByteWindow); }
    int64_t dest_words() const { return window().dest_numel(); }
    Status run(uint8_t* dest, const uint8_t* source, const Launch& launch) const {
        return window().write(launch, 1, source, dest);
    }

private:
    Window window() const { return {source_byte_numel, rank, dest_byte_shape, source_byte_shape, range_start_bytes}; }
};

}  // namespace bk
