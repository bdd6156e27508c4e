// Spans of pointwise loops on the CPU: operands that are not dense pass through buffers.
#include <algorithm>

#include "core/pointwise/pointwise.h"

namespace bk {

namespace {

// Unrolled: the time of so short a loop would depend on where it lies in memory, by a factor of 1.8.
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

// Elements of `size` bytes, `step` apart, into a dense buffer.
void gather_bytes(int size, void* to, const void* from, int64_t step, int64_t count) {
    switch (size) {
        case 1: return gather(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), step, count);
        case 2: return gather(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), step, count);
        case 4: return gather(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), step, count);
        case 8: return gather(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), step, count);
        default:  // pairs of elements
            for (int64_t i = 0; i < count; ++i)
                memcpy(static_cast<char*>(to) + i * size, static_cast<const char*>(from) + i * step * size,
                       static_cast<size_t>(size));
    }
}

// Elements of a dense buffer to places `step` apart.
void scatter_bytes(int size, void* to, const void* from, int64_t step, int64_t count) {
    switch (size) {
        case 1: return scatter(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), step, count);
        case 2: return scatter(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), step, count);
        case 4: return scatter(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), step, count);
        case 8: return scatter(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), step, count);
        default:  // pairs of elements
            for (int64_t i = 0; i < count; ++i)
                memcpy(static_cast<char*>(to) + i * step * size, static_cast<const char*>(from) + i * size,
                       static_cast<size_t>(size));
    }
}

constexpr int kMostOperands = 8;

// Where each operand's buffer begins, in bytes for an element; `halves` are f16 on their way to or from a strided span.
struct SpanPlan {
    bool in_place[kMostOperands];
    int64_t place[kMostOperands], halves = 0, used = 0;

    SpanPlan(const DenseLoop& loop, int operands, char* const* pointers, const int64_t* step) {
        bool has_halves = false;
        for (int k = 0; k < operands; ++k) {
            in_place[k] = pointers[k] != nullptr && step[k] == 1 && !loop.converted[k];
            place[k] = used;
            used += in_place[k] ? 0 : loop.converted[k] ? static_cast<int>(sizeof(float)) : loop.size[k];
            has_halves = has_halves || (loop.converted[k] && step[k] != 1);
        }
        halves = used;
        used += has_halves ? static_cast<int>(sizeof(f16)) : 0;
    }
};

}  // namespace

void compute_span(const DenseLoop& loop, int operands, int64_t element, int64_t count, char* const* pointers,
                  const int64_t* step) {
    static_assert(kBufferBytes / (kMostOperands * 8 + 2) >= kBlock, "room for a block of every operand");
    const SpanPlan plan(loop, operands, pointers, step);
    if (plan.used == 0) return loop.run(loop.fn, element, count, pointers);
    alignas(64) char buffer[kBufferBytes];
    // Whole blocks: then every buffer begins at a multiple of 64 bytes.
    const int64_t most = std::min<int64_t>(kBufferBytes / plan.used / kBlock * kBlock, kBuffer);
    char* const halves = buffer + plan.halves * most;
    for (int64_t first = 0; first < count; first += most) {
        const int64_t n = std::min(count - first, most);
        char *start[kMostOperands], *now[kMostOperands];
        for (int k = 0; k < operands; ++k) {
            start[k] = pointers[k] == nullptr ? nullptr : pointers[k] + first * step[k] * loop.size[k];
            now[k] = plan.in_place[k] ? start[k] : buffer + plan.place[k] * most;
            if (k < loop.outputs || plan.in_place[k]) continue;
            char* const span = !loop.converted[k] ? now[k] : step[k] == 1 ? start[k] : halves;
            if (step[k] != 1) gather_bytes(loop.size[k], span, start[k], step[k], n);
            if (loop.converted[k]) widen_span(reinterpret_cast<float*>(now[k]), reinterpret_cast<const f16*>(span), n);
        }
        loop.run(loop.fn, element + first, n, now);
        for (int k = 0; k < loop.outputs; ++k) {
            if (start[k] == nullptr || plan.in_place[k]) continue;
            char* const span = !loop.converted[k] ? now[k] : step[k] == 1 ? start[k] : halves;
            if (loop.converted[k]) narrow_span(reinterpret_cast<f16*>(span), reinterpret_cast<const float*>(now[k]), n);
            if (step[k] != 1) scatter_bytes(loop.size[k], start[k], span, step[k], n);
        }
    }
}

}  // namespace bk
