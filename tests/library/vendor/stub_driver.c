/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libcuda.so.1: the current context, per thread, and whether the driver still answers. */
__thread unsigned long long stub_context = 1;
int stub_is_gone = 0;

int cuCtxGetId(void* context, unsigned long long* id) {
    if (context != 0 || stub_is_gone) return 4; /* CUDA_ERROR_DEINITIALIZED */
    *id = stub_context;
    return 0;
}
