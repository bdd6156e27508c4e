// Each thread counts what its places have, unless it is alone, and then writes behind those before it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rows/select_places.h"

namespace bk {

constexpr int64_t kSelectBlock = 1024;   // places whose numbers are written together
constexpr int64_t kSelectChunk = 32768;  // at least, of a thread
constexpr int64_t kMostSelectChunks = 256;

inline size_t select_workspace(int64_t) { return 0; }

template <class Truth, class Write>
BK_HD int64_t write_selected(const Truth& truth, const Write& write, int64_t number, int64_t begin, int64_t end) {
    uint16_t found[kSelectBlock];
    for (int64_t first = begin; first < end; first += kSelectBlock) {
        const int64_t length = std::min(kSelectBlock, end - first);
        int64_t count = 0;
        for (int64_t k = 0; k < length; ++k) {
            found[count] = static_cast<uint16_t>(k);
            count += truth.at(first + k);
        }
        for (int64_t k = 0; k < count; ++k) write(number + k, first + found[k]);
        number += count;
    }
    return number;
}

template <class Truth, class Write>
Status select_places(const Launch&, int64_t places, const Truth& truth, const Write& write) {
    const int64_t size = std::max(kSelectChunk, ceil_div(places, kMostSelectChunks)), chunks = ceil_div(places, size);
    if (chunks <= 1 || thread_count() == 1) {
        int64_t count = 0;
        dispatch_range([&](int64_t begin, int64_t end) { count = write_selected(truth, write, 0, begin, end); }, 0, places);
        write.total(count);
        return Status::kOk;
    }
    int64_t before[kMostSelectChunks];
    parallel_ranges(chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
            int64_t count = 0;
            for (int64_t place = c * size; place < std::min(places, (c + 1) * size); ++place) count += truth.at(place);
            before[c] = count;
        }
    });
    int64_t total = 0;
    for (int64_t c = 0; c < chunks; ++c) {
        const int64_t count = before[c];
        before[c] = total;
        total += count;
    }
    parallel_ranges(chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c)
            write_selected(truth, write, before[c], c * size, std::min(places, (c + 1) * size));
    });
    write.total(total);
    return Status::kOk;
}

}  // namespace bk
