// SPDX-License-Identifier: Apache-2.0
// Samplers, filters and speculative sampling with rows split over the blocks of a cluster: the bits of one block a row.
#define BK_FIBER_CLUSTERS
#include "sampling/sample_tokens.h"

#include <cstring>
#include <vector>

#include "arrays.h"
#include "core/device.cpp"
#include "sampling/speculative.h"

namespace {

using namespace bk::sampling;

constexpr int kBatch = 2;
constexpr int kVocab = 2100;  // three segments: some blocks of a large cluster have none

struct Results {
    std::vector<int32_t> token, path, accepted;
    std::vector<uint8_t> valid;
    std::vector<float> y;

    bool operator==(const Results& other) const {
        return token == other.token && path == other.path && accepted == other.accepted && valid == other.valid &&
               (y.empty() || memcmp(y.data(), other.y.data(), y.size() * sizeof(float)) == 0);
    }
};

float logit(int64_t i, int kind) {
    const float x = static_cast<float>((i * 7919 + 13) % 4001) / 400 - 5;
    return kind == 1 ? std::floor(x) : kind == 2 ? 0.0f : x;
}

Results sampled(TokenRows<float> rows, int cluster, bool is_cached) {
    Results r;
    r.token.assign(kBatch, -7);
    r.valid.assign(kBatch, 9);
    r.y.assign(static_cast<size_t>(rows.output == Output::kToken ? 0 : kBatch * rows.vocab), -1.0f);
    rows.token = r.token.data();
    rows.valid = r.valid.data();
    rows.y = r.y.data();
    Split split = split_of(rows.vocab, cluster);
    split.is_cached = is_cached;
    const int64_t bytes = is_cached ? split.block_tokens * static_cast<int64_t>(sizeof(float)) : 0;
    const bk::Launch launch{};
    if (launch_rows(launch, kBatch, split, bytes, token_rows_kernel<float>, rows) != bk::Status::kOk) exit(1);
    return r;
}

struct Choice {
    int kind;
    Rule rule;
    Output output;
    int top_k = 1700;  // more than few tokens
    float top_p = 0.875f;
};

bool samples_alike() {
    const Choice choices[] = {
        {0, Rule::kSequential, Output::kToken},         {1, Rule::kSequential, Output::kMask},
        {2, Rule::kSequential, Output::kProbabilities}, {1, Rule::kSequential, Output::kToken},
        {1, Rule::kOriginal, Output::kToken},           {0, Rule::kTypical, Output::kToken},
        {0, Rule::kSequential, Output::kToken, 40},     {0, Rule::kSequential, Output::kMask, 0, 0.25f},
        {0, Rule::kOriginal, Output::kMask, 40, 0.02f}, {1, Rule::kSequential, Output::kProbabilities, 7},
        {0, Rule::kSequential, Output::kMask, 1},       {0, Rule::kSequential, Output::kToken, 0, 0.9999f}};
    for (const Choice& choice : choices) {
        std::vector<float> x;
        for (int64_t i = 0; i < int64_t{kBatch} * kVocab; ++i) x.push_back(logit(i, choice.kind));
        TokenRows<float> rows{};
        rows.batch = kBatch;
        rows.vocab = kVocab;
        rows.x = x.data();
        rows.rule = choice.rule;
        rows.output = choice.output;
        rows.are_probabilities = choice.rule == Rule::kOriginal;
        if (rows.are_probabilities)
            for (float& each : x) each = std::exp2(each) / kVocab;
        rows.temperature.value = 0.75f;
        rows.top_k.value = choice.top_k;
        rows.top_p.value = choice.top_p;
        rows.min_p.value = 0.001f;
        rows.seeds.seed.value = static_cast<uint64_t>(77 + choice.kind);
        const Results one = sampled(rows, 1, false);
        for (const int cluster : {2, 8})
            if (!(sampled(rows, cluster, cluster == 2) == one)) {
                printf("kind %d, rule %d, output %d: %d blocks differ from one\n", choice.kind, static_cast<int>(choice.rule),
                       static_cast<int>(choice.output), cluster);
                return false;
            }
    }
    return true;
}

Results speculated(int vocab, bool by_blocks, bool is_tree, int cluster) {
    constexpr int kDrafted = 2, kPositions = kDrafted + 1;
    std::vector<float> draft, target;
    for (int64_t i = 0; i < int64_t{kBatch} * kDrafted * vocab; ++i) draft.push_back(std::exp2(logit(i, 0)) / 4096);
    for (int64_t i = 0; i < int64_t{kBatch} * kPositions * vocab; ++i) target.push_back(std::exp2(logit(i + 5, 0)) / 4096);
    const int32_t tokens[kBatch * kPositions] = {3, 17, 5, 1999, 2, 6}, parents[kBatch * kPositions] = {0, 0, 1, 0, 0, 0};
    Results r;
    r.token.assign(kBatch * kPositions, -7);
    r.path = r.token;
    r.accepted.assign(kBatch, -7);
    const bk::Launch launch{};
    bk::Status status;
    if (is_tree) {
        TreeRows<float> rows{};
        rows.batch = kBatch, rows.nodes = kPositions, rows.vocab = vocab;
        rows.target = target.data(), rows.node_token = tokens, rows.parent = parents;
        rows.token = r.token.data(), rows.path = r.path.data(), rows.accepted = r.accepted.data();
        status = launch_rows(launch, kBatch, split_of(vocab, cluster), 0, tree_kernel<float>, rows);
    } else {
        SpeculativeRows<float> rows{};
        rows.batch = kBatch, rows.drafted = kDrafted, rows.vocab = vocab, rows.by_blocks = by_blocks;
        rows.draft = draft.data(), rows.draft_token = tokens, rows.target = target.data();
        rows.token = r.token.data(), rows.accepted = r.accepted.data();
        status = launch_rows(launch, kBatch, split_of(vocab, cluster), 0, speculative_kernel<float>, rows);
    }
    if (status != bk::Status::kOk) exit(1);
    return r;
}

bool speculates_alike() {
    for (const int form : {0, 1, 2}) {
        const Results one = speculated(kVocab, form == 1, form == 2, 1);
        if (!(speculated(kVocab, form == 1, form == 2, 2) == one)) {
            printf("form %d: two blocks differ from one\n", form);
            return false;
        }
    }
    return true;
}

}  // namespace

int main() {
    fibers::cluster_rounds = 32;  // more than the barriers of a row
    if (!samples_alike() || !speculates_alike()) return 1;
    puts("ok");
}
