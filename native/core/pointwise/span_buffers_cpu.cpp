// SPDX-License-Identifier: Apache-2.0
// Spans of pointwise loops on the CPU: gathers and scatters strided operands, and converts f16, through stack buffers.
#include <algorithm>

#include "core/pointwise/pointwise.h"

namespace bk {

namespace {

// Unrolled, since the time of so short a loop varies by a factor of 1.8 with its code alignment.
template <class T>
void gather(T* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t count) {
    if (step == 0) {
        for (int64_t i = 0; i < count; ++i) to[i] = *from;
        return;
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

template <class T>
void scatter(T* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t count) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}

// Gathers elements of `size` bytes, `step` apart, into a dense buffer.
void gather_bytes(int size, void* to, const void* from, int64_t step, int64_t count) {
    switch (size) {
        case 1: return gather(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), step, count);
        case 2: return gather(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), step, count);
        case 4: return gather(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), step, count);
        case 8: return gather(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), step, count);
        default:  // wider elements
            for (int64_t i = 0; i < count; ++i)
                memcpy(static_cast<char*>(to) + i * size, static_cast<const char*>(from) + i * step * size,
                       static_cast<size_t>(size));
    }
}

// Scatters a dense buffer to elements `step` apart.
void scatter_bytes(int size, void* to, const void* from, int64_t step, int64_t count) {
    switch (size) {
        case 1: return scatter(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), step, count);
        case 2: return scatter(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), step, count);
        case 4: return scatter(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), step, count);
        case 8: return scatter(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), step, count);
        default:  // wider elements
            for (int64_t i = 0; i < count; ++i)
                memcpy(static_cast<char*>(to) + i * step * size, static_cast<const char*>(from) + i * size,
                       static_cast<size_t>(size));
    }
}

// Gathers `rows` rows of `length` elements into a dense buffer, and scatters them back. Rows are short: a memcpy call
// for each would take longer than its elements.
template <class T>
BK_KEEPS_COPIES void gather_short_rows(T* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t row_step,
                                       int64_t length, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, to += length, from += row_step) {
        if (step == 1) {
            for (int64_t i = 0; i < length; ++i) to[i] = from[i];
        } else if (step == 0) {
            const T value = *from;
            for (int64_t i = 0; i < length; ++i) to[i] = value;
        } else {
            for (int64_t i = 0; i < length; ++i) to[i] = from[i * step];
        }
    }
}

template <class T>
BK_KEEPS_COPIES void scatter_short_rows(T* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t row_step,
                                        int64_t length, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, to += row_step, from += length)
        if (step == 1)
            for (int64_t i = 0; i < length; ++i) to[i] = from[i];
        else
            for (int64_t i = 0; i < length; ++i) to[i * step] = from[i];
}

// Calls body with an integer as wide as an element; false for elements wider than 8 bytes.
template <class Body>
bool for_size(int size, const Body& body) {
    switch (size) {
        case 1: return body(uint8_t{}), true;
        case 2: return body(uint16_t{}), true;
        case 4: return body(uint32_t{}), true;
        case 8: return body(uint64_t{}), true;
        default: return false;
    }
}

constexpr int kMaxOperands = 8;

// Buffer offset of each operand, in bytes per element; `halves` is the f16 staging buffer of strided converted
// operands.
struct SpanPlan {
    bool in_place[kMaxOperands];
    int64_t offset[kMaxOperands], halves = 0, used = 0;

    SpanPlan(const DenseLoop& loop, int operands, char* const* pointers, const bool* dense) {
        bool has_halves = false;
        for (int k = 0; k < operands; ++k) {
            in_place[k] = pointers[k] != nullptr && dense[k] && !loop.converted[k];
            offset[k] = used;
            used += in_place[k] ? 0 : loop.converted[k] ? static_cast<int>(sizeof(float)) : loop.size[k];
            has_halves = has_halves || (loop.converted[k] && !dense[k]);
        }
        halves = used;
        used += has_halves ? static_cast<int>(sizeof(f16)) : 0;
    }

    // Elements that the buffers hold: whole blocks, so that every buffer is aligned to 64 bytes.
    int64_t capacity() const { return used == 0 ? kBuffer : std::min<int64_t>(kBufferBytes / used / kBlock * kBlock, kBuffer); }
};

}  // namespace

void compute_span(const DenseLoop& loop, int operands, int64_t element, int64_t count, char* const* pointers,
                  const int64_t* step) {
    static_assert(kBufferBytes / (kMaxOperands * 8 + 2) >= kBlock, "capacity for a block of every operand");
    bool dense[kMaxOperands];
    for (int k = 0; k < operands; ++k) dense[k] = step[k] == 1;
    const SpanPlan plan(loop, operands, pointers, dense);
    if (plan.used == 0) return loop.run(loop.fn, element, count, pointers);
    alignas(64) char buffer[kBufferBytes];
    const int64_t capacity = plan.capacity();
    char* const halves = buffer + plan.halves * capacity;
    for (int64_t first = 0; first < count; first += capacity) {
        const int64_t n = std::min(count - first, capacity);
        char *start[kMaxOperands], *data[kMaxOperands];
        for (int k = 0; k < operands; ++k) {
            start[k] = pointers[k] == nullptr ? nullptr : pointers[k] + first * step[k] * loop.size[k];
            data[k] = plan.in_place[k] ? start[k] : buffer + plan.offset[k] * capacity;
            if (k < loop.outputs || plan.in_place[k] || (first > 0 && step[k] == 0)) continue;
            char* const span = !loop.converted[k] ? data[k] : step[k] == 1 ? start[k] : halves;
            if (step[k] != 1) gather_bytes(loop.size[k], span, start[k], step[k], n);
            if (loop.converted[k]) widen_span(reinterpret_cast<float*>(data[k]), reinterpret_cast<const f16*>(span), n);
        }
        loop.run(loop.fn, element + first, n, data);
        for (int k = 0; k < loop.outputs; ++k) {
            if (start[k] == nullptr || plan.in_place[k]) continue;
            char* const span = !loop.converted[k] ? data[k] : step[k] == 1 ? start[k] : halves;
            if (loop.converted[k]) narrow_span(reinterpret_cast<f16*>(span), reinterpret_cast<const float*>(data[k]), n);
            if (step[k] != 1) scatter_bytes(loop.size[k], start[k], span, step[k], n);
        }
    }
}

int64_t rows_per_span(const DenseLoop& loop, int operands, char* const* pointers, const ShortRows& axes) {
    if (axes.length > kMaxShortRow) return 1;
    bool dense[kMaxOperands];
    for (int k = 0; k < operands; ++k) {
        if (loop.size[k] > 8) return 1;
        dense[k] = axes.is_dense(k);
        // A contiguous row of a block or more is computed alone: copying it to a buffer costs more than its loop's
        // tail.
        const bool repeats = k >= loop.outputs && axes.row_step[k] == 0;
        if (axes.length >= kBlock && axes.step[k] == 1 && !dense[k] && !repeats) return 1;
    }
    return SpanPlan(loop, operands, pointers, dense).capacity() / axes.length;
}

void compute_rows(const DenseLoop& loop, int operands, int64_t element, int64_t rows, char* const* pointers,
                  const ShortRows& axes) {
    bool dense[kMaxOperands];
    for (int k = 0; k < operands; ++k) dense[k] = axes.is_dense(k);
    const SpanPlan plan(loop, operands, pointers, dense);
    const int64_t capacity = plan.capacity(), span_rows = capacity / axes.length;
    alignas(64) char buffer[kBufferBytes];
    char* const halves = buffer + plan.halves * capacity;
    for (int64_t first = 0; first < rows; first += span_rows) {
        const int64_t count = std::min(rows - first, span_rows), n = count * axes.length;
        char *start[kMaxOperands], *data[kMaxOperands];
        for (int k = 0; k < operands; ++k) {
            start[k] = pointers[k] == nullptr ? nullptr : pointers[k] + first * axes.row_step[k] * loop.size[k];
            data[k] = plan.in_place[k] ? start[k] : buffer + plan.offset[k] * capacity;
            if (k < loop.outputs || plan.in_place[k] || (first > 0 && axes.row_step[k] == 0)) continue;
            char* const span = !loop.converted[k] ? data[k] : dense[k] ? start[k] : halves;
            if (!dense[k])
                for_size(loop.size[k], [&](auto cell) {
                    using T = decltype(cell);
                    gather_short_rows(reinterpret_cast<T*>(span), reinterpret_cast<const T*>(start[k]), axes.step[k],
                                      axes.row_step[k], axes.length, count);
                });
            if (loop.converted[k]) widen_span(reinterpret_cast<float*>(data[k]), reinterpret_cast<const f16*>(span), n);
        }
        loop.run(loop.fn, element + first * axes.length, n, data);
        for (int k = 0; k < loop.outputs; ++k) {
            if (start[k] == nullptr || plan.in_place[k]) continue;
            char* const span = !loop.converted[k] ? data[k] : dense[k] ? start[k] : halves;
            if (loop.converted[k]) narrow_span(reinterpret_cast<f16*>(span), reinterpret_cast<const float*>(data[k]), n);
            if (!dense[k])
                for_size(loop.size[k], [&](auto cell) {
                    using T = decltype(cell);
                    scatter_short_rows(reinterpret_cast<T*>(start[k]), reinterpret_cast<const T*>(span), axes.step[k],
                                       axes.row_step[k], axes.length, count);
                });
        }
    }
}

}  // namespace bk
