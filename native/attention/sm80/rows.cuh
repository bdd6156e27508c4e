// SPDX-License-Identifier: Apache-2.0
// Rows of queries and keys as the mma.sync kernels of attention address them, and how their results are stored.
#pragma once

#include <cstdint>

#include "attention/flash/scores.h"
#include "attention/sm80/tile.cuh"
#include "core/math/fastdiv.h"
#include "core/math/limits.h"

namespace bk::sm80 {

// Query rows that read the same keys: all queries of `group` heads, heads alternating from row to row.
struct QueryRows {
    int b, head, group;  // the first head
    int rows;            // q_len * group
    int begin;           // of the sequence in a packed tensor

    BK_DEVICE int query(int row) const {
        return group == 1 ? row : static_cast<int>(static_cast<uint32_t>(row) / static_cast<uint32_t>(group));
    }
    BK_DEVICE int head_of(int row) const { return head + row - query(row) * group; }
};

struct Span {
    int first, end;
};

// A band in 32 bits: query i sees keys [i + first, i + end) within `keys`, those of the sequence or of a split.
struct KeyBand {
    int first, end;
    Span keys;

    BK_DEVICE KeyBand(const Band& band, const Sequence& s) : keys{0, static_cast<int>(s.k_len)} {
        constexpr int64_t kMost = int64_t{1} << 30;
        const int64_t shift = band_shift(band, s);
        first = static_cast<int>(clamp_row(shift - band.left, -kMost, kMost));
        end = static_cast<int>(clamp_row(shift + band.right + 1, -kMost, kMost));
    }

    // Keys that some query in [i_first, i_last] sees.
    BK_DEVICE Span of_rows(int i_first, int i_last) const {
        const int low = max(i_first + first, keys.first), high = min(i_last + end, keys.end);
        return {low, max(low, high)};
    }
    // Queries that see some key in [j_first, j_last], in [0, q_len).
    BK_DEVICE Span of_keys(int j_first, int j_last, int q_len) const {
        const int low = max(j_first - end + 1, 0), high = min(j_last - first + 1, q_len);
        return {low, max(low, high)};
    }
    BK_DEVICE bool shows(int i, int j) const { return j >= i + first && j < i + end && j >= keys.first && j < keys.end; }
};

// Keys or values of one head of a sequence.
template <class E>
struct KeyRows {
    const HeadsView<const E>& view;
    const Lengths& lengths;
    const FastDiv<uint32_t>& page_size;
    const E* data;  // key 0; with pages the head's first slot of page 0
    int first_page, k_len;

    BK_DEVICE KeyRows(const HeadsView<const E>& all, const Lengths& lengths_, const FastDiv<uint32_t>& size, const Sequence& s,
                      int64_t b, int64_t h)
        : view(all), lengths(lengths_), page_size(size), first_page(0), k_len(static_cast<int>(s.k_len)) {
        if (lengths.page_ids != nullptr) {
            data = all.at(0, h, 0);
            first_page = static_cast<int>(s.k_begin);
        } else {
            data = all.at(b, h, s.k_begin);
        }
    }

    // Null behind the last key.
    BK_DEVICE const E* row(int j) const {
        if (j >= k_len) return nullptr;
        if (lengths.page_ids == nullptr) return data + j * view.row;
        const DivMod<uint32_t> at = page_size(static_cast<uint32_t>(j));
        return data + (page_at(lengths, first_page + static_cast<int>(at.quotient)) * view.batch + at.remainder * view.row);
    }
};

// Rows of a packed tensor behind sequence b that no sequence owns; those before the first are sequence -1's.
BK_DEVICE KeyRange unowned_queries(const Lengths& lengths, int64_t batch, int64_t b) {
    int64_t first = 0, end = lengths.total_q;
    if (b >= 0) {
        const Sequence s = sequence_of(lengths, b);
        first = s.q_begin + s.q_len;
    }
    if (b + 1 < batch) end = sequence_of(lengths, b + 1).q_begin;
    return {first, end};
}

BK_DEVICE KeyRange unowned_keys(const Lengths& lengths, int64_t batch, int64_t b) {
    int64_t first = 0, end = lengths.total_k;
    if (b >= 0) {
        const Sequence s = sequence_of(lengths, b);
        first = s.k_begin + s.k_len;
    }
    if (b + 1 < batch) end = sequence_of(lengths, b + 1).k_begin;
    return {first, end};
}

template <class T>
BK_DEVICE void zero_rows(const HeadsView<T>& to, int64_t b, int64_t h, const KeyRange& rows, int width, int thread,
                         int threads) {
    for (int64_t row = rows.first; row < rows.end; ++row)
        for (int x = thread; x < width; x += threads) to.at(b, h, row)[x] = T{};
}

// Stores the logarithm of a row's sum, given in base 2.
template <class T>
BK_DEVICE void store_lse(const LseView& lse, int64_t b, int64_t h, int64_t row, float log2_sum, bool is_empty) {
    if (lse.data == nullptr) return;
    const float value = is_empty ? lse.empty : lse.is_base2 ? log2_sum : log2_sum * 0.693147181f;
    const int64_t at = b * lse.batch + h * lse.head + row * lse.row;
    if (lse.is_element)
        static_cast<T*>(lse.data)[at] = narrow<T>(value);
    else
        static_cast<float*>(lse.data)[at] = value;
}

template <class T>
BK_DEVICE void store_empty_rows(const HeadsView<T>& y, const LseView& lse, int64_t b, int64_t h, const KeyRange& rows,
                                int width, int thread, int threads) {
    if (y.data != nullptr) zero_rows(y, b, h, rows, width, thread, threads);
    for (int64_t row = rows.first + thread; row < rows.end; row += threads) store_lse<T>(lse, b, h, row, 0, true);
}

// Rows of y and lse around sequence b that no sequence owns, of `count` heads.
template <class P>
BK_DEVICE void store_unowned_rows(const P& p, int b, int head, int count, int thread, int threads) {
    if (p.lengths.q_offsets == nullptr) return;
    for (int h = head; h < head + count; ++h)
        for (int before = b == 0 ? -1 : b; before <= b; ++before)
            store_empty_rows(p.y, p.lse, b, h, unowned_queries(p.lengths, p.batch, before), static_cast<int>(p.d_v), thread,
                             threads);
}

}  // namespace bk::sm80
