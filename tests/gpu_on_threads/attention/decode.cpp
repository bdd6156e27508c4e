// SPDX-License-Identifier: Apache-2.0
// Attention of few rows by mma.sync on fibers (tests/gpu_on_threads/core) against plain loops.
#include "attention.h"
#include "attention/sm80/decode_launch.cuh"

namespace {

template <class T, class KV>
bool test(const char* name, const Options& o) {
    Problem<T, KV> problem(o);
    bool is_taken = false;
    std::vector<char> workspace(attention_decode_mma_workspace(problem.p));
    const Launch launch{workspace.data(), o.is_split ? workspace.size() : 0, nullptr};
    if (attention_decode_mma(launch, problem.p, &is_taken) == Status::kOk && is_taken && problem.check_forward()) return true;
    printf("%s: failed%s\n", name, is_taken ? "" : ", not taken");
    return false;
}

template <class T, class KV>
bool test_all() {
    bool right = true;
    const auto run = [&](const char* name, const auto& change) {
        Options o;
        o.gap = 16, o.q_len = 1, o.heads = 8;
        change(o);
        right &= test<T, KV>(name, o);
    };
    run("plain", [](Options&) {});
    run("split", [](Options& o) { o.k_len = 1000, o.sinks = true; });
    run("not split", [](Options& o) { o.k_len = 300, o.is_split = false, o.sinks = true; });
    run("d 128", [](Options& o) { o.d_k = o.d_v = 128, o.k_len = 333; });
    run("d 256", [](Options& o) { o.d_k = 256, o.d_v = 160, o.k_len = 200, o.scale = 0.06f; });
    run("d 80, 24", [](Options& o) { o.d_k = 80, o.d_v = 24; });
    run("d 33, 35", [](Options& o) { o.d_k = 33, o.d_v = 35, o.gap = 0; });
    run("misaligned", [](Options& o) { o.offset = 1; });
    run("no keys", [](Options& o) { o.k_len = 0; });
    run("few keys", [](Options& o) { o.k_len = 3, o.batch = 2; });
    run("causal rows", [](Options& o) { o.q_len = 9, o.k_len = 150, o.is_causal = o.aligns_ends = true; });
    run("longer queries", [](Options& o) { o.q_len = 30, o.k_len = 17, o.is_causal = o.aligns_ends = true; });
    run("window", [](Options& o) { o.q_len = 3, o.k_len = 500, o.left = 130, o.right = 0, o.aligns_ends = true; });
    run("invariant", [](Options& o) { o.k_len = 2300, o.is_invariant = true, o.heads = 2; });
    run("varlen", [](Options& o) { o.batch = 3, o.varlen = true, o.q_len = 5, o.k_len = 200; });
    run("k_lens", [](Options& o) { o.batch = 4, o.k_lens = true, o.k_len = 400, o.base2 = true; });
    run("pages of 16", [](Options& o) { o.batch = 3, o.page_size = 16, o.k_len = 400; });
    run("pages of 48", [](Options& o) { o.batch = 3, o.page_size = 48, o.k_len = 300, o.d_k = o.d_v = 128; });
    run("pages of 1", [](Options& o) { o.batch = 3, o.page_size = 1; });
    run("pages of 7", [](Options& o) { o.batch = 3, o.page_size = 7, o.k_lens = true, o.element_lse = true; });
    run("softcap", [](Options& o) { o.softcap = 1.5f; });
    run("slopes", [](Options& o) { o.slopes = true, o.q_len = 3; });
    run("tree", [](Options& o) { o.mask = true, o.q_len = 6, o.k_len = 90; });
    run("bias", [](Options& o) { o.bias = Values::kElement, o.k_len = 300; });
    run("blocks", [](Options& o) { o.blocks = 16, o.k_len = 300; });
    run("dropout", [](Options& o) { o.dropout = 0.4f, o.k_len = 150; });
    return right;
}

}  // namespace

int main() {
    bool right = test_all<f16, f16>() & test_all<bf16, bf16>() & test_all<f16, e4m3>() & test_all<bf16, e4m3>();
    right &= test_all<f16, e5m2>() & test_all<bf16, e5m2>();
    if (!right) return 1;
    puts("ok");
    return 0;
}
