/* Sums rows by segment, ids in any order, with the workspace that the op asks for; then a call that fails. */
#include <baracuda_kernels.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const float x[6][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}};
    const int32_t ids[6] = {2, 0, 3, 2, 0, 2};
    float y[4][2];
    const size_t bytes = baracuda_kernels_unsorted_segment_sum_f32_workspace_size(6, 2, 4);
    void* workspace = malloc(bytes); /* host memory, for the CPU library; the CUDA library takes device pointers */
    int32_t status = baracuda_kernels_unsorted_segment_sum_f32_run(6, 2, 4, x, ids, y, workspace, bytes, NULL);
    free(workspace);
    if (status != BARACUDA_STATUS_OK) {
        fprintf(stderr, "%s\n", baracuda_kernels_last_error());
        return 1;
    }
    for (int s = 0; s < 4; ++s) printf("%g %g\n", y[s][0], y[s][1]);

    status = baracuda_kernels_unsorted_segment_sum_f32_run(-6, 2, 4, x, ids, y, NULL, 0, NULL);
    printf("%s: %s\n", baracuda_kernels_status_name(status), baracuda_kernels_last_error());
    return 0;
}
