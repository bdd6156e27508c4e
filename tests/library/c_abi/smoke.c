/* SPDX-License-Identifier: Apache-2.0 */
/* A C11 program against the header: every op once through the CPU library, and one error of each kind. */
#include <baracuda_kernels.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int good, const char* what) {
    if (good) return;
    ++failures;
    fprintf(stderr, "failed: %s (last error: %s)\n", what, baracuda_kernels_last_error());
}

#define EXPECT(condition) expect((condition), #condition)
#define OK BARACUDA_STATUS_OK
#define NO_WORKSPACE NULL, 0, NULL

static int near(float a, float b) { return fabsf(a - b) < 1e-5f; }

static void lerp(void) {
    const float a[3] = {0, 1, 2}, b[3] = {4, 5, 6};
    float y[3] = {0}, da[3], db[3];
    EXPECT(baracuda_kernels_binary_lerp_f32_can_implement(3, a, b, y, 0.25f) == OK);
    EXPECT(baracuda_kernels_binary_lerp_f32_run(3, a, b, y, 0.25f, NO_WORKSPACE) == OK);
    EXPECT(y[0] == 1 && y[1] == 2 && y[2] == 3);
    const int32_t shape[1] = {3};
    const int64_t forward[1] = {1}, backward[1] = {-1};
    EXPECT(baracuda_kernels_binary_lerp_f32_strided_run(3, 1, shape, forward, backward, forward, a, b + 2, y, 1.0f,
                                                        NO_WORKSPACE) == OK);
    EXPECT(y[0] == 6 && y[1] == 5 && y[2] == 4);
    EXPECT(baracuda_kernels_binary_lerp_backward_f32_run(3, b, da, db, 0.25f, NO_WORKSPACE) == OK);
    EXPECT(near(da[0], 3) && near(db[2], 1.5f));
    EXPECT(baracuda_kernels_binary_lerp_backward_f32_strided_run(3, 1, shape, backward, forward, forward, b + 2, da, db, 0.5f,
                                                                 NO_WORKSPACE) == OK);
    EXPECT(da[0] == 3 && db[2] == 2);
}

static void repeat(void) {
    const double x[2] = {1, 2};
    double y[6] = {0}, dx[2] = {0};
    const int32_t in[1] = {2}, out[1] = {6}, repeats[1] = {3};
    const int64_t one[1] = {1};
    EXPECT(baracuda_kernels_repeat_f64_run(6, 1, in, out, one, one, x, y, NO_WORKSPACE) == OK);
    EXPECT(y[0] == 1 && y[3] == 2 && y[4] == 1);
    EXPECT(baracuda_kernels_repeat_backward_f64_run(2, 1, in, repeats, one, one, y, dx, NO_WORKSPACE) == OK);
    EXPECT(dx[0] == 3 && dx[1] == 6);
    (void)baracuda_kernels_repeat_backward_f64_workspace_size(2, 1, in, repeats, one, one);
}

static void segments(void) {
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const int32_t ids[3] = {0, 0, 2}, mixed[3] = {2, 0, 2};
    const int64_t wide[3] = {0, 0, 2};
    float y[6], dx[6];
    EXPECT(baracuda_kernels_segment_sum_f32_run(3, 2, 3, x, ids, y, NO_WORKSPACE) == OK);
    EXPECT(y[0] == 4 && y[1] == 6 && y[2] == 0 && y[5] == 6);
    EXPECT(baracuda_kernels_segment_sum_i64idx_f32_run(3, 2, 3, x, wide, y, NO_WORKSPACE) == OK);
    EXPECT(y[0] == 4 && y[4] == 5);
    EXPECT(baracuda_kernels_unsorted_segment_sum_f32_run(3, 2, 3, x, mixed, y, NO_WORKSPACE) == OK);
    EXPECT(y[0] == 3 && y[4] == 6 && y[5] == 8);
    EXPECT(baracuda_kernels_segment_sum_backward_f32_run(3, 2, 3, y, ids, dx, NO_WORKSPACE) == OK);
    EXPECT(dx[0] == 3 && dx[2] == 3 && dx[5] == 8);
    EXPECT(baracuda_kernels_unsorted_segment_sum_backward_i64idx_f32_run(3, 2, 3, y, wide, dx, NO_WORKSPACE) == OK);
    EXPECT(dx[4] == 6);
}

static void bags(void) {
    const float weight[6] = {1, 2, 3, 4, 5, 6}, dout[4] = {1, 2, 4, 8};
    const int32_t indices[4] = {0, 2, 1, 7}, offsets[2] = {0, 2};
    float out[4], dweight[6] = {0};
    EXPECT(baracuda_kernels_embedding_bag_f32_run(4, 3, 2, 2, 1, -1, weight, indices, offsets, out, NO_WORKSPACE) == OK);
    EXPECT(out[0] == 3 && out[1] == 4 && out[2] == 3 && out[3] == 4);
    EXPECT(baracuda_kernels_embedding_bag_backward_f32_run(4, 3, 2, 2, 0, -1, dout, indices, offsets, dweight, NO_WORKSPACE) ==
           OK);
    EXPECT(dweight[0] == 1 && dweight[3] == 8 && dweight[5] == 2);
}

static void alibi(void) {
    const float scores[4] = {0, 0, 0, 0}, slope[1] = {2};
    float y[4], da[4], dslope[1];
    EXPECT(baracuda_kernels_alibi_f32_run(1, 1, 2, 2, scores, slope, y, NO_WORKSPACE) == OK);
    EXPECT(y[0] == 0 && y[1] == 2 && y[2] == -2);
    EXPECT(baracuda_kernels_alibi_backward_f32_run(1, 1, 2, 2, y, da, dslope, NO_WORKSPACE) == OK);
    EXPECT(da[1] == 2 && dslope[0] == 4);
}

static void errors(void) {
    float y[2] = {7, 7};
    EXPECT(baracuda_kernels_binary_lerp_f32_run(0, NULL, NULL, NULL, 0, NO_WORKSPACE) == OK);
    EXPECT(baracuda_kernels_binary_lerp_f32_run(-1, y, y, y, 0, NO_WORKSPACE) == BARACUDA_STATUS_INVALID_PROBLEM);
    EXPECT(strncmp(baracuda_kernels_last_error(), "binary_lerp_f32: numel is -1", 28) == 0);
    EXPECT(baracuda_kernels_binary_lerp_f32_run(1, NULL, y, y, 0, NO_WORKSPACE) == BARACUDA_STATUS_INVALID_PROBLEM);
    EXPECT(baracuda_kernels_binary_lerp_f32_run(1, (const char*)y + 1, y, y, 0, NO_WORKSPACE) == BARACUDA_STATUS_MISALIGNED);
    EXPECT(baracuda_kernels_embedding_bag_f32_can_implement(1, 1, 1, 1, 5, -1, y, y, y, y) == BARACUDA_STATUS_UNSUPPORTED);
    EXPECT(y[0] == 7 && y[1] == 7);
    EXPECT(strcmp(baracuda_kernels_status_name(BARACUDA_STATUS_UNSUPPORTED), "unsupported") == 0);
}

int main(void) {
    EXPECT(baracuda_kernels_abi_version() == BARACUDA_ABI_VERSION);
    EXPECT(strlen(baracuda_kernels_abi_hash()) == 16);
    EXPECT(strstr(baracuda_kernels_build_info(), "\"backend\"") != NULL);
    EXPECT(baracuda_kernels_symbol_count() > 0 && baracuda_kernels_symbol_name(0) != NULL);
    lerp();
    repeat();
    segments();
    bags();
    alibi();
    errors();
    if (failures == 0) puts("ok");
    return failures != 0;
}
