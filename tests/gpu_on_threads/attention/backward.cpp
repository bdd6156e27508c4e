// SPDX-License-Identifier: Apache-2.0
// Gradients of attention by mma.sync on fibers (tests/gpu_on_threads/core) against plain loops.
#include "attention.h"
#include "attention/sm80/backward_launch.cuh"

namespace {

template <class T>
bool test(const char* name, const Options& o) {
    BackwardProblem<T> problem(o);
    bool is_taken = false;
    std::vector<char> workspace(attention_backward_mma_workspace(problem.backward));
    const Launch launch{workspace.data(), workspace.size(), nullptr};
    if (attention_backward_mma(launch, problem.backward, &is_taken) == Status::kOk && is_taken && problem.check_backward())
        return true;
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
    run("causal", [](Options& o) { o.q_len = o.k_len = 133, o.is_causal = true, o.heads = o.kv_heads = 1; });
    run("causal, longer keys", [](Options& o) { o.q_len = 70, o.k_len = 150, o.is_causal = o.aligns_ends = true; });
    run("causal, longer queries", [](Options& o) { o.q_len = 150, o.k_len = 70, o.is_causal = o.aligns_ends = true; });
    run("window", [](Options& o) { o.q_len = 140, o.k_len = 160, o.left = 20, o.right = 5, o.aligns_ends = true; });
    run("group", [](Options& o) { o.heads = 6, o.q_len = 70, o.base2 = true; });
    run("d 128", [](Options& o) { o.d_k = o.d_v = 128, o.heads = o.kv_heads = 1; });
    run("d 40, 72", [](Options& o) { o.d_k = 40, o.d_v = 72; });
    run("d 256, 160", [](Options& o) { o.d_k = 256, o.d_v = 160, o.heads = 2, o.kv_heads = 1, o.scale = 0.06f; });
    run("d 33, 35", [](Options& o) { o.d_k = 33, o.d_v = 35, o.gap = 0; });
    run("misaligned", [](Options& o) { o.offset = 1; });
    run("no keys", [](Options& o) { o.k_len = 0; });
    run("varlen", [](Options& o) { o.batch = 3, o.varlen = true, o.q_len = 80, o.is_causal = o.aligns_ends = true; });
    run("k_lens", [](Options& o) { o.batch = 3, o.k_lens = true, o.k_len = 140; });
    run("sinks", [](Options& o) { o.sinks = true; });
    run("softcap", [](Options& o) { o.softcap = 1.5f, o.is_causal = true; });
    run("slopes", [](Options& o) { o.slopes = true, o.is_causal = o.aligns_ends = true; });
    run("bias", [](Options& o) { o.bias = Values::kElement, o.heads = 4, o.left = 30, o.right = 2, o.softcap = 3; });
    run("bias, varlen", [](Options& o) { o.bias = Values::kF32, o.batch = 3, o.varlen = true, o.k_len = 71; });
    run("mask", [](Options& o) { o.mask = true, o.batch = 2, o.k_lens = true; });
    run("blocks", [](Options& o) { o.blocks = 32, o.q_len = 130, o.k_len = 200; });
    run("dropout", [](Options& o) { o.dropout = 0.3f; });
    run("dropout, d 128", [](Options& o) { o.dropout = 0.3f, o.softcap = 2, o.d_k = o.d_v = 128; });
    run("dropout, d 200", [](Options& o) { o.dropout = 0.3f, o.bias = Values::kF32, o.d_k = o.d_v = 200; });
    return right;
}

}  // namespace

int main() {
    if (!test_all<f16>() || !test_all<bf16>()) return 1;
    puts("ok");
    return 0;
}
