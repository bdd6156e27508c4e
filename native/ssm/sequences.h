// SPDX-License-Identifier: Apache-2.0
// Sequences of tokens: the rows of a batch, or ranges of one row, of which offsets have the begins and the end.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/platform.h"

namespace bk::ssm {

struct Sequences {
    const int32_t* offsets;  // or null: each row is a sequence
    int64_t count;           // of sequences
    int64_t length;          // tokens of a row
    int64_t rows;            // of the batch: count without offsets, 1 with them

    BK_HD int64_t row(int64_t s) const { return offsets == nullptr ? s : 0; }
    // Offsets are clamped to the tokens that there are.
    BK_HD int64_t begin(int64_t s) const { return offsets == nullptr ? 0 : clamped(offsets[s], 0); }
    BK_HD int64_t end(int64_t s) const { return offsets == nullptr ? length : clamped(offsets[s + 1], begin(s)); }
    // Whether a sequence has the token, which lie in order.
    BK_HD bool has(int64_t token) const { return token >= begin(0) && token < end(count - 1); }
    // The sequence of a token that has one: the last that begins at or before it.
    BK_HD int64_t of(int64_t row, int64_t token) const {
        if (offsets == nullptr) return row;
        int64_t low = 0, high = count;
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            (offsets[middle] <= token ? low : high) = middle;
        }
        return low;
    }

private:
    BK_HD int64_t clamped(int64_t offset, int64_t least) const {
        return offset < least ? least : offset > length ? length : offset;
    }
};

// Elements of (row, token, channel); E may be const.
template <class E>
struct TokenView {
    E* data;
    int64_t row_stride, token_stride, channel_stride;

    BK_HD E* at(int64_t row, int64_t token) const { return data + row * row_stride + token * token_stride; }
};

// The number of sequences, whether there are offsets or not.
BK_COLD inline Status require_count(int32_t batch, int32_t sequences, int32_t seqlen) {
    if (batch != 1 && sequences != batch)
        return fail(Status::kInvalidProblem, "sequences is %d, must be batch, %d, unless that is 1", sequences, batch);
    if (sequences == 0 && batch == 1 && seqlen > 0)
        return fail(Status::kInvalidProblem, "sequences is 0, must be >= 1 where there are tokens");
    return Status::kOk;
}

BK_COLD inline Status require_sequences(const int32_t* offsets, int32_t batch, int32_t sequences) {
    if (offsets == nullptr && sequences != batch)
        return fail(Status::kInvalidProblem, "cu_seqlens is NULL, but sequences is %d, not batch, %d", sequences, batch);
    if (offsets != nullptr && batch != 1)
        return fail(Status::kInvalidProblem, "cu_seqlens is not NULL, but batch is %d, not 1", batch);
    return Status::kOk;
}

}  // namespace bk::ssm
