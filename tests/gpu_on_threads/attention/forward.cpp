// SPDX-License-Identifier: Apache-2.0
// Forward attention by mma.sync on fibers (tests/gpu_on_threads/core) against plain loops.
#include "attention.h"
#include "attention/sm80/decode_launch.cuh"
#include "attention/sm80/forward_launch.cuh"

namespace {

template <class T>
bool test(const char* name, const Options& o) {
    Problem<T> problem(o);
    bool is_taken = false;
    std::vector<char> workspace(attention_forward_mma_workspace(problem.p));
    const Launch launch{workspace.data(), o.is_split ? workspace.size() : 0, nullptr};
    if (attention_forward_mma(launch, problem.p, &is_taken) == Status::kOk && is_taken && problem.check_forward()) return true;
    printf("%s: failed%s\n", name, is_taken ? "" : ", not taken");
    return false;
}

template <class T>
bool test_all() {
    bool right = true;
    const auto run = [&](const char* name, const auto& change) {
        Options o;
        change(o);
        right &= test<T>(name, o);
    };
    run("plain", [](Options&) {});
    run("two tiles", [](Options& o) { o.q_len = 150, o.k_len = 130, o.heads = o.kv_heads = 1; });
    run("causal", [](Options& o) { o.q_len = 133, o.k_len = 133, o.is_causal = true, o.heads = o.kv_heads = 1; });
    run("causal, longer keys", [](Options& o) { o.q_len = 70, o.k_len = 190, o.is_causal = o.aligns_ends = true; });
    run("causal, longer queries", [](Options& o) { o.q_len = 150, o.k_len = 70, o.is_causal = o.aligns_ends = true; });
    run("top left", [](Options& o) { o.q_len = 70, o.k_len = 150, o.is_causal = true; });
    run("window", [](Options& o) { o.q_len = 140, o.k_len = 200, o.left = 20, o.right = 5, o.aligns_ends = true; });
    run("window of one", [](Options& o) { o.q_len = o.k_len = 70, o.left = 0, o.right = 0; });
    run("d 128", [](Options& o) { o.d_k = o.d_v = 128, o.heads = o.kv_heads = 1; });
    run("d 40, 72", [](Options& o) { o.d_k = 40, o.d_v = 72; });
    run("d 96", [](Options& o) { o.d_k = o.d_v = 96, o.heads = o.kv_heads = 1, o.is_causal = true; });
    run("d 80, softcap", [](Options& o) { o.d_k = 80, o.d_v = 88, o.softcap = 2; });
    run("d 192, 128", [](Options& o) { o.d_k = 192, o.d_v = 128, o.heads = o.kv_heads = 1; });
    run("d 256", [](Options& o) { o.d_k = o.d_v = 256, o.heads = o.kv_heads = 1, o.scale = 0.06f; });
    run("d 33, 35", [](Options& o) { o.d_k = 33, o.d_v = 35, o.gap = 0; });
    run("misaligned", [](Options& o) { o.offset = 1; });
    run("d 100", [](Options& o) { o.d_k = o.d_v = 100, o.gap = 4, o.heads = o.kv_heads = 1; });
    run("no keys", [](Options& o) { o.k_len = 0; });
    run("no d_k", [](Options& o) { o.d_k = 0; });
    run("one query", [](Options& o) { o.heads = 34, o.kv_heads = 2, o.q_len = 1, o.k_len = 65; });
    run("packed", [](Options& o) { o.heads = 12, o.kv_heads = 2, o.q_len = 5, o.is_causal = o.aligns_ends = true; });
    run("packed, split", [](Options& o) {
        o.heads = 10, o.kv_heads = 2, o.q_len = 7, o.k_len = 700, o.is_causal = o.aligns_ends = true, o.sinks = true;
    });
    run("not split", [](Options& o) { o.heads = 10, o.kv_heads = 2, o.q_len = 7, o.k_len = 600, o.is_split = false; });
    run("split window", [](Options& o) {
        o.heads = 4, o.kv_heads = 1, o.q_len = 9, o.k_len = 900, o.left = 300, o.right = 0, o.aligns_ends = true;
    });
    run("invariant", [](Options& o) { o.heads = 6, o.kv_heads = 1, o.q_len = 4, o.k_len = 2500, o.is_invariant = true; });
    run("invariant, slabs", [](Options& o) {
        o.heads = 60, o.kv_heads = 1, o.q_len = 65, o.k_len = 20000, o.d_k = 16, o.d_v = 256, o.left = 3, o.right = 0;
        o.is_invariant = true;
    });
    run("varlen", [](Options& o) { o.batch = 3, o.varlen = true, o.q_len = 80, o.is_causal = o.aligns_ends = true; });
    run("varlen, packed", [](Options& o) { o.batch = 3, o.varlen = true, o.heads = 6, o.q_len = 20; });
    run("k_lens", [](Options& o) { o.batch = 3, o.k_lens = true, o.base2 = true; });
    run("pages of 16", [](Options& o) { o.batch = 3, o.page_size = 16, o.k_len = 150; });
    run("pages of 5", [](Options& o) { o.batch = 3, o.page_size = 5, o.varlen = true, o.element_lse = true; });
    run("softcap", [](Options& o) { o.softcap = 1.5f, o.is_causal = true; });
    run("negative scale", [](Options& o) { o.scale = -0.3f; });
    run("slopes", [](Options& o) { o.slopes = true, o.is_causal = o.aligns_ends = true, o.sinks = true; });
    run("bias", [](Options& o) { o.bias = Values::kElement, o.left = 30; });
    run("bias f32", [](Options& o) { o.bias = Values::kF32, o.heads = 6, o.q_len = 13; });
    run("mask", [](Options& o) { o.mask = true, o.batch = 2, o.k_lens = true; });
    run("blocks of 32", [](Options& o) { o.blocks = 32, o.q_len = 130, o.k_len = 200; });
    run("blocks of 5", [](Options& o) { o.blocks = 5, o.heads = 4, o.q_len = 23; });
    run("dropout", [](Options& o) { o.dropout = 0.3f, o.sinks = true; });
    run("dropout, packed, d 128", [](Options& o) { o.dropout = 0.3f, o.heads = 4, o.d_k = o.d_v = 128, o.softcap = 2; });
    return right;
}

// NaN of a query makes its row NaN, and no other; a score of +inf makes NaN too.
template <class T>
bool test_specials(int64_t q_len) {
    Options o;
    o.q_len = q_len, o.k_len = 300;
    Problem<T> problem(o);
    const auto set = [&](int64_t row, float q, float k) {
        problem.q.view.at(0, 0, row)[5] = narrow<T>(q);
        if (k != 0) problem.k.view.at(0, 0, 7)[5] = narrow<T>(k);
    };
    set(0, NAN, 0);
    if (q_len > 2) set(2, INFINITY, 2);
    bool is_taken = false;
    if (attention_forward_mma(Launch{}, problem.p, &is_taken) != Status::kOk || !is_taken) return false;
    for (int64_t h = 0; h < o.heads; ++h)
        for (int64_t i = 0; i < q_len; ++i) {
            const bool is_nan = h == 0 && (i == 0 || i == 2);
            const double y = wide(problem.y.view.at(0, h, i)[3]), lse = problem.got_lse(0, h, i);
            if ((y != y) == is_nan && (lse != lse) == is_nan) continue;
            printf("query %d of head %d is %g, lse %g\n", static_cast<int>(i), static_cast<int>(h), y, lse);
            return false;
        }
    return true;
}

// The last queries alone, packed and split, have the bits that they have among all.
template <class T>
bool test_invariance(bool sinks) {
    Options o;
    o.q_len = 70, o.k_len = 2300, o.heads = 4, o.is_causal = o.aligns_ends = o.is_invariant = true, o.sinks = sinks, o.d_v = 16;
    Problem<T> all(o);
    const int64_t few = 5;
    bool is_taken = false;
    std::vector<char> workspace(attention_forward_mma_workspace(all.p));
    const Launch launch{workspace.data(), workspace.size(), nullptr};
    if (attention_forward_mma(launch, all.p, &is_taken) != Status::kOk || !is_taken) return false;
    Problem<T> last(o);
    last.p.lengths.q_len = few;
    last.p.q.data += (o.q_len - few) * last.p.q.row;
    if (attention_forward_mma(launch, last.p, &is_taken) != Status::kOk || !is_taken) return false;
    for (int64_t h = 0; h < o.heads; ++h)
        for (int64_t i = 0; i < few; ++i)
            if (memcmp(all.y.view.at(0, h, o.q_len - few + i), last.y.view.at(0, h, i), sizeof(T) * 16) != 0) {
                printf("row %d of head %d has other bits\n", static_cast<int>(i), static_cast<int>(h));
                return false;
            }
    return true;
}

}  // namespace

int main() {
    if (!test_specials<bf16>(70) || !test_specials<f16>(4) || !test_specials<bf16>(1)) return 1;
    if (!test_invariance<bf16>(false) || !test_invariance<f16>(true)) return 1;
    if (!test_all<f16>() || !test_all<bf16>()) return 1;
    puts("ok");
    return 0;
}
