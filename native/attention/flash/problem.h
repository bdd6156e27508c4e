// SPDX-License-Identifier: Apache-2.0
// Fused attention: the problem that every core and every entry point of the family share.
//
// y = softmax(scores) v over the visible keys, scores = bias + slope (j - i) + cap tanh(scale q.k / cap), where each of
// the additions and the cap may be absent. lse is the logarithm of the sum of the exponentials of a row's scores. Query
// head h reads key-value head h / (heads / kv_heads). A row without a visible key has y = 0 and lse = `empty`.
//
// The cores compute tiles with an online softmax (Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022): they
// never store the scores.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// A tensor [batch, head, row, element] whose elements of a row are adjacent; strides in elements. With pages (Lengths)
// `batch` is the stride of a page and `row` that of a slot.
template <class E>
struct HeadsView {
    E* data = nullptr;
    int64_t batch = 0, head = 0, row = 0;

    BK_HD E* at(int64_t b, int64_t h, int64_t r) const { return data + (b * batch + h * head + r * row); }
};

constexpr int64_t kUnbounded = int64_t{1} << 40;

// Key j is visible to query i if -left <= j - (i + shift) <= right. Where `aligns_ends` is set the shift is k_len - q_len
// of the sequence, so that the last query sees the last key (bottom-right); otherwise it is `shift`, 0 for top-left.
struct Band {
    int64_t left = kUnbounded, right = kUnbounded, shift = 0;
    bool aligns_ends = false;

    static Band of(bool is_causal, int64_t window_left, int64_t window_right, bool aligns_ends) {
        const auto bound = [](int64_t window) { return window < 0 ? kUnbounded : window; };
        return {bound(window_left), is_causal ? 0 : bound(window_right), 0, aligns_ends};
    }
    bool is_all() const { return left == kUnbounded && right == kUnbounded; }
};

// Content of an optional operand of runtime dtype: none, f32, T, or bytes of which 0 hides a key.
enum class Values : int8_t { kNone, kF32, kElement, kKeep };

// An operand [batch, head, query, key] with strides in elements, 0 where it is broadcast.
struct ScoresView {
    const void* data = nullptr;
    Values values = Values::kNone;
    int64_t batch = 0, head = 0, row = 0, column = 0;
};

// Blocks of block_size x block_size scores: those with a byte of 0 are hidden. blocks is [batch, head, query block, key
// block], strides in bytes.
struct BlockMask {
    const uint8_t* blocks = nullptr;
    int64_t size = 1, batch = 0, head = 0, row = 0;
};

// Drops each probability with this chance; the others are divided by 1 - p. Bits come from Philox at the counter (i, j,
// head, batch), whatever the tiles. The seed is read on the device.
struct Dropout {
    float probability = 0;
    const uint64_t* seed = nullptr;
};

// Rules that give q.k its score and visibility (attention/flash/scores.h).
struct ScoreRules {
    float scale = 1;
    float softcap = 0;  // 0: none
    Band band;
    const float* slopes = nullptr;  // ALiBi: [heads], batches slopes_step apart
    int64_t slopes_step = 0;
    ScoresView bias;  // added to the score
    ScoresView mask;  // kKeep
    BlockMask blocks;
    const float* sinks = nullptr;  // [heads]: the score of one more key, whose value is 0
    Dropout dropout;
};

// Rows of the sequences. Without offsets each has q_len queries and k_len keys; with them sequence b has rows offsets[b] to
// offsets[b + 1] of a tensor whose batch stride is 0, and q_len and k_len bound the lengths. With pages, keys j of
// sequence b are slot j % page_size of page page_ids[page_offsets[b] + j / page_size], and there are
// (pages - 1) page_size + last_page_len[b] of them. k_lens bounds the keys of each sequence further.
struct Lengths {
    int64_t q_len = 0, k_len = 0;
    int64_t total_q = 0, total_k = 0;  // rows behind the offsets, which are clamped to them
    const int32_t* q_offsets = nullptr;
    const int32_t* k_offsets = nullptr;
    const int32_t* k_lens = nullptr;
    const int32_t* page_ids = nullptr;
    const int32_t* page_offsets = nullptr;
    const int32_t* last_page_len = nullptr;
    int64_t page_size = 0;
    int64_t page_id_count = kUnbounded, page_count = kUnbounded;  // offsets and page ids are clamped to them
};

struct Sequence {
    int64_t q_begin, q_len, k_begin, k_len;  // with pages k_begin is an index of page_ids
};

BK_HD int64_t clamp_row(int64_t row, int64_t low, int64_t high) { return row < low ? low : row > high ? high : row; }

BK_HD Sequence sequence_of(const Lengths& lengths, int64_t b) {
    Sequence s{0, lengths.q_len, 0, lengths.k_len};
    if (lengths.q_offsets != nullptr) {
        s.q_begin = clamp_row(lengths.q_offsets[b], 0, lengths.total_q);
        s.q_len = clamp_row(lengths.q_offsets[b + 1], s.q_begin, lengths.total_q) - s.q_begin;
        if (s.q_len > lengths.q_len) s.q_len = lengths.q_len;
    }
    if (lengths.page_ids != nullptr) {
        s.k_begin = clamp_row(lengths.page_offsets[b], 0, lengths.page_id_count);
        const int64_t pages = clamp_row(lengths.page_offsets[b + 1], 0, lengths.page_id_count) - s.k_begin;
        s.k_len = pages <= 0 || lengths.page_count == 0
                      ? 0
                      : (pages - 1) * lengths.page_size + clamp_row(lengths.last_page_len[b], 0, lengths.page_size);
    } else if (lengths.k_offsets != nullptr) {
        s.k_begin = clamp_row(lengths.k_offsets[b], 0, lengths.total_k);
        s.k_len = clamp_row(lengths.k_offsets[b + 1], s.k_begin, lengths.total_k) - s.k_begin;
        if (s.k_len > lengths.k_len) s.k_len = lengths.k_len;
    }
    if (lengths.k_lens != nullptr) s.k_len = clamp_row(lengths.k_lens[b], 0, s.k_len);
    return s;
}

// The page at an index of page_ids.
BK_HD int64_t page_at(const Lengths& lengths, int64_t index) {
    return clamp_row(lengths.page_ids[index], 0, lengths.page_count - 1);
}

// Row j of the keys or values of a sequence.
template <class E>
BK_HD const E* key_row(const HeadsView<const E>& view, const Lengths& lengths, const Sequence& s, int64_t b, int64_t h,
                       int64_t j) {
    if (lengths.page_ids != nullptr)
        return view.at(page_at(lengths, s.k_begin + j / lengths.page_size), h, j % lengths.page_size);
    return view.at(b, h, s.k_begin + j);
}

// The logarithms of the sums of a row's exponentials, [batch, head, query] as f32, or as T where is_element is set.
struct LseView {
    void* data = nullptr;
    bool is_element = false, is_base2 = false;
    float empty = 0;  // of a row without a visible key: -inf or +inf
    int64_t batch = 0, head = 0, row = 0;
};

// Probabilities [batch, head, query, key], contiguous; f32 or T.
struct WeightsView {
    void* data = nullptr;
    Values values = Values::kNone;
};

// T: dtype of q and y; KV: of keys and values.
template <class T, class KV = T>
struct AttentionForward {
    int64_t batch = 0, heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
    Lengths lengths;
    ScoreRules rules;
    HeadsView<const T> q;
    HeadsView<const KV> k, v;
    HeadsView<const float> k_scales, v_scales;  // factors of the rows of 8-bit keys and values, or null
    HeadsView<T> y;
    LseView lse;
    WeightsView weights;
    bool is_batch_invariant = false;  // splits along the keys have a fixed size

    BK_HD int64_t kv_head_of(int64_t h) const { return h / (heads / kv_heads); }
};

// Gradients from the saved y and lse. dk and dv are sums over the query heads of a group; each gradient may be null.
template <class T>
struct AttentionBackward {
    AttentionForward<T> forward;  // y and lse are inputs
    HeadsView<const T> y, dy;
    HeadsView<T> dq, dk, dv;
    void* dbias = nullptr;  // [batch, head, query, key] of T, contiguous
    float* dsinks = nullptr;
};

// The cores. Declared for f32, f16, bf16 and f64; the CUDA library chooses among kernels.
template <class T>
Status attention_forward(const Launch& launch, const AttentionForward<T>& p);
template <class T>
size_t attention_forward_workspace(const AttentionForward<T>& p);
template <class T>
Status attention_backward(const Launch& launch, const AttentionBackward<T>& p);
template <class T>
size_t attention_backward_workspace(const AttentionBackward<T>& p);

// A cache of another dtype than the queries: T is f16 or bf16, KV is e4m3 or e5m2. Without weights.
template <class T, class KV>
Status attention_decode(const Launch& launch, const AttentionForward<T, KV>& p);
template <class T, class KV>
size_t attention_decode_workspace(const AttentionForward<T, KV>& p);

}  // namespace bk
