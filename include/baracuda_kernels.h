/*
 * baracuda: machine-learning kernels behind a C ABI.
 *
 * Written by tools/gen_abi.py from native/core/prologue.h and the op tables native/<family>/<family>.abi: edit those.
 *
 * For every op and dtype there is
 *   baracuda_kernels_<op>_<dtype>_run             enqueues the op on `stream`;
 *   baracuda_kernels_<op>_<dtype>_can_implement   checks the scalars and host arrays alone; data pointers are ignored;
 *   baracuda_kernels_<op>_<dtype>_workspace_size  bytes of workspace that the op can use, where it can use one.
 *
 * Pointers   Device pointers, naturally aligned for their dtype; host pointers in the CPU library. `host` marks arrays
 *            that lie in host memory and are read before the call returns.
 * Shapes     Row-major and contiguous unless strides are passed. Strides count elements and have any sign; 0 broadcasts.
 *            A rank is 0 to 8. An empty problem returns 0 before any pointer is looked at.
 * dtypes     f16: IEEE 754 binary16. bf16: upper half of binary32. Arithmetic on both is done in f32 and rounded once.
 * Workspace  The caller's, of at least _workspace_size bytes, any alignment and content. NULL is allowed unless the op
 *            says otherwise; a shorter one is status 4.
 * Stream     A cudaStream_t of the current device; NULL is the per-thread default stream. The CPU library ignores it.
 * Guarantees No call allocates device memory, synchronises, prints, throws or keeps state, so every call can be captured
 *            in a CUDA graph. Operands must not overlap unless the op says so.
 * Errors     Every function with an int32_t result returns a baracuda_status. After a failure nothing has been written
 *            (except status 5) and baracuda_kernels_last_error() names the argument.
 */
#ifndef BARACUDA_KERNELS_H
#define BARACUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BARACUDA_API __attribute__((visibility("default")))
#else
#define BARACUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change that an existing caller could notice; additions leave it as it is. */
#define BARACUDA_ABI_VERSION 1

enum baracuda_status {
    BARACUDA_STATUS_OK = 0,
    BARACUDA_STATUS_MISALIGNED = 1,          /* an operand is not aligned for its dtype */
    BARACUDA_STATUS_INVALID_PROBLEM = 2,     /* negative extent, rank or axis out of range, NULL pointer */
    BARACUDA_STATUS_UNSUPPORTED = 3,         /* well formed, but nothing here computes it */
    BARACUDA_STATUS_WORKSPACE_TOO_SMALL = 4, /* workspace NULL or shorter than _workspace_size, where one is needed */
    BARACUDA_STATUS_INTERNAL = 5             /* the launch failed */
};

/* Library. Strings are static, or valid until the calling thread's next failing call; never NULL. */
BARACUDA_API int32_t baracuda_kernels_abi_version(void);
/* 16 hexadecimal digits over all prototypes: equal hashes, equal ABI. */
BARACUDA_API const char* baracuda_kernels_abi_hash(void);
/* JSON object: backend ("cpu" or "cuda"), version, commit, compiler, archs (list of "sm_<number>"). */
BARACUDA_API const char* baracuda_kernels_build_info(void);
/* "invalid problem" for 2; "unknown status" for a code that is none. */
BARACUDA_API const char* baracuda_kernels_status_name(int32_t status);
/* Text of the calling thread's last failure, "<op>: <argument> is <value>, must be ..."; empty before the first. */
BARACUDA_API const char* baracuda_kernels_last_error(void);
/* The exported functions in header order, these included; NULL outside [0, count). */
BARACUDA_API int64_t baracuda_kernels_symbol_count(void);
BARACUDA_API const char* baracuda_kernels_symbol_name(int64_t index);

/* ---- attention ------------------------------------------------------------------------------------------------- */

/*
 * alibi_{T}  (T: f32 f16 bf16 f64)
 * y[b, h, i, j] = scores[b, h, i, j] + slopes[h] * (j - i) (Press et al. 2022, without mask). y may be scores.
 *   in    scores: T [batch, heads, q_len, k_len]
 *   in    slopes: T [heads]
 *   out   y: T [batch, heads, q_len, k_len]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_alibi_f32_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_f32_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, const void* y);
BARACUDA_API int32_t baracuda_kernels_alibi_f16_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_f16_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, const void* y);
BARACUDA_API int32_t baracuda_kernels_alibi_bf16_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_bf16_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, const void* y);
BARACUDA_API int32_t baracuda_kernels_alibi_f64_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_f64_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* scores, const void* slopes, const void* y);

/*
 * alibi_backward_{T}  (T: f32 f16 bf16 f64)
 * da = dy, dslope[h] = sum over b, i, j of dy[b, h, i, j] * (j - i). Either gradient may be NULL, not both; da may
 * be dy. dy may be NULL where it is empty; dslope is then 0.
 *   in    dy: T [batch, heads, q_len, k_len], may be NULL
 *   out   da: T [batch, heads, q_len, k_len], may be NULL
 *   out   dslope: T [heads], may be NULL
 *   workspace optional: spreads the reduction over the whole chip
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_alibi_backward_f32_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, void* da, void* dslope, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_f32_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, const void* da, const void* dslope);
BARACUDA_API size_t baracuda_kernels_alibi_backward_f32_workspace_size(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_f16_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, void* da, void* dslope, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_f16_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, const void* da, const void* dslope);
BARACUDA_API size_t baracuda_kernels_alibi_backward_f16_workspace_size(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_bf16_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, void* da, void* dslope, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_bf16_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, const void* da, const void* dslope);
BARACUDA_API size_t baracuda_kernels_alibi_backward_bf16_workspace_size(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_f64_run(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, void* da, void* dslope, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_alibi_backward_f64_can_implement(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len, const void* dy, const void* da, const void* dslope);
BARACUDA_API size_t baracuda_kernels_alibi_backward_f64_workspace_size(int32_t batch, int32_t heads, int32_t q_len, int32_t k_len);

/* ---- elementwise ----------------------------------------------------------------------------------------------- */

/*
 * binary_lerp_{T}  (T: f32 f16 bf16 f64)
 * y = a + p * (b - a), taken from b for p >= 0.5, so that p = 0 gives a and p = 1 gives b exactly. y may be a or
 * b.
 *   in    a: T [numel]
 *   in    b: T [numel]
 *   out   y: T [numel]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f32_run(int64_t numel, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f32_can_implement(int64_t numel, const void* a, const void* b, const void* y, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f16_run(int64_t numel, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f16_can_implement(int64_t numel, const void* a, const void* b, const void* y, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_bf16_run(int64_t numel, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_bf16_can_implement(int64_t numel, const void* a, const void* b, const void* y, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f64_run(int64_t numel, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f64_can_implement(int64_t numel, const void* a, const void* b, const void* y, float p);

/*
 * binary_lerp_{T}_strided  (T: f32 f16 bf16 f64)
 * binary_lerp on strided operands; a stride of 0 broadcasts an input. y may be an input of equal strides.
 *   host  shape: i32 [rank]
 *   host  stride_a: i64 [rank]
 *   host  stride_b: i64 [rank]
 *   host  stride_y: i64 [rank]
 *   in    a: T [shape]
 *   in    b: T [shape]
 *   out   y: T [shape]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f32_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f32_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, const void* y, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f16_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f16_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, const void* y, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_bf16_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_bf16_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, const void* y, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f64_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, void* y, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_f64_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_a, const int64_t* stride_b, const int64_t* stride_y, const void* a, const void* b, const void* y, float p);

/*
 * binary_lerp_backward_{T}  (T: f32 f16 bf16 f64)
 * da = (1 - p) * dy, db = p * dy. One of da, db may be dy; they must be distinct.
 *   in    dy: T [numel]
 *   out   da: T [numel]
 *   out   db: T [numel]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f32_run(int64_t numel, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f32_can_implement(int64_t numel, const void* dy, const void* da, const void* db, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f16_run(int64_t numel, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f16_can_implement(int64_t numel, const void* dy, const void* da, const void* db, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_bf16_run(int64_t numel, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_bf16_can_implement(int64_t numel, const void* dy, const void* da, const void* db, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f64_run(int64_t numel, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f64_can_implement(int64_t numel, const void* dy, const void* da, const void* db, float p);

/*
 * binary_lerp_backward_{T}_strided  (T: f32 f16 bf16 f64)
 * binary_lerp_backward on strided operands.
 *   host  shape: i32 [rank]
 *   host  stride_dy: i64 [rank]
 *   host  stride_da: i64 [rank]
 *   host  stride_db: i64 [rank]
 *   in    dy: T [shape]
 *   out   da: T [shape]
 *   out   db: T [shape]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f32_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f32_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, const void* da, const void* db, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f16_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f16_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, const void* da, const void* db, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_bf16_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_bf16_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, const void* da, const void* db, float p);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f64_strided_run(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, void* da, void* db, float p, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_binary_lerp_backward_f64_strided_can_implement(int64_t numel, int32_t rank, const int32_t* shape, const int64_t* stride_dy, const int64_t* stride_da, const int64_t* stride_db, const void* dy, const void* da, const void* db, float p);

/* ---- embedding ------------------------------------------------------------------------------------------------- */

/*
 * embedding_bag{I}_{T}  (T: f32 f64 f16 bf16, I: i32 i64)
 * out[b] = sum (mode 0) or mean (mode 1) of weight[indices[k]] over offsets[b] <= k < offsets[b + 1]; the last bag
 * ends at total_indices. Indices equal to padding_idx or outside [0, num_embeddings) are dropped, from the mean's
 * count too; an empty bag gives 0.
 *   in    weight: T [num_embeddings, embedding_dim]
 *   in    indices: I [total_indices]
 *   in    offsets: i32 [num_bags]
 *   out   out: T [num_bags, embedding_dim]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_embedding_bag_f32_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_f32_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_f32_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_f32_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_f64_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_f64_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_f64_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_f64_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_f16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_f16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_f16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_f16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_bf16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_bf16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_bf16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, void* out, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_i64idx_bf16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* weight, const void* indices, const void* offsets, const void* out);

/*
 * embedding_bag_backward{I}_{T}  (T: f32 f64 f16 bf16, I: i32 i64)
 * dweight[indices[k]] += dout[b] / (mode 1: number of indices kept in bag b). The caller zeroes dweight. Without a
 * workspace by atomics, each addition to a 16-bit dweight rounded, f32 subnormals flushed on a GPU; with one,
 * offsets must be non-decreasing.
 *   in    dout: T [num_bags, embedding_dim]
 *   in    indices: I [total_indices]
 *   in    offsets: i32 [num_bags]
 *   inout dweight: T [num_embeddings, embedding_dim]
 *   workspace optional: deterministic, and 16-bit sums in f32
 *   deterministic with a workspace only
 */
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_f32_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_f32_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_f32_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_f32_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_f32_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_i64idx_f32_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_f64_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_f64_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_f64_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_f64_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_f64_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_i64idx_f64_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_f16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_f16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_f16_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_f16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_f16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_i64idx_f16_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_bf16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_bf16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_bf16_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_bf16_run(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, void* dweight, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_embedding_bag_backward_i64idx_bf16_can_implement(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx, const void* dout, const void* indices, const void* offsets, const void* dweight);
BARACUDA_API size_t baracuda_kernels_embedding_bag_backward_i64idx_bf16_workspace_size(int32_t total_indices, int32_t num_embeddings, int32_t embedding_dim, int32_t num_bags, int32_t mode, int64_t padding_idx);

/* ---- segment --------------------------------------------------------------------------------------------------- */

/*
 * segment_sum{I}_{T}  (T: f32 f64 f16 bf16, I: i32 i64)
 * output[s] = sum of input[i] over segment_ids[i] == s; ids must be non-decreasing. Empty segments give 0; ids
 * outside [0, num_segments) are ignored.
 *   in    input: T [n, d], may be NULL
 *   in    segment_ids: I [n], may be NULL
 *   out   output: T [num_segments, d]
 *   workspace optional: balances segments of unequal length
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_segment_sum_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_f32_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_i64idx_f32_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_f64_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_i64idx_f64_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_f16_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_i64idx_f16_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_bf16_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_i64idx_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_segment_sum_i64idx_bf16_workspace_size(int32_t n, int32_t d, int32_t num_segments);

/*
 * segment_sum_backward{I}_{T}  (T: f32 f64 f16 bf16, I: i32 i64)
 * d_input[i] = d_output[segment_ids[i]], 0 where the id is outside [0, num_segments).
 *   in    d_output: T [num_segments, d]
 *   in    segment_ids: I [n]
 *   out   d_input: T [n, d]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_segment_sum_backward_i64idx_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);

/*
 * unsorted_segment_sum{I}_{T}  (T: f32 f64 f16 bf16, I: i32 i64)
 * segment_sum with ids in any order. Without a workspace by atomics, each addition of a 16-bit sum rounded; on a
 * GPU they flush f32 subnormals.
 *   in    input: T [n, d], may be NULL
 *   in    segment_ids: I [n], may be NULL
 *   out   output: T [num_segments, d], may be NULL
 *   workspace optional: deterministic, and 16-bit sums in f32
 *   deterministic with a workspace only
 */
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_f32_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_i64idx_f32_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_f64_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_i64idx_f64_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_f16_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_i64idx_f16_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_bf16_workspace_size(int32_t n, int32_t d, int32_t num_segments);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, void* output, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_i64idx_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, const void* output);
BARACUDA_API size_t baracuda_kernels_unsorted_segment_sum_i64idx_bf16_workspace_size(int32_t n, int32_t d, int32_t num_segments);

/*
 * unsorted_segment_sum_backward{I}_{T}  (T: f32 f64 f16 bf16, I: i32 i64)
 * The same as segment_sum_backward.
 *   in    d_output: T [num_segments, d]
 *   in    segment_ids: I [n]
 *   out   d_input: T [n, d]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_f32_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_f32_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_f64_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_f64_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_f16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_f16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_bf16_run(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, void* d_input, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_unsorted_segment_sum_backward_i64idx_bf16_can_implement(int32_t n, int32_t d, int32_t num_segments, const void* d_output, const void* segment_ids, const void* d_input);

/* ---- shape_layout ---------------------------------------------------------------------------------------------- */

/*
 * repeat_{T}  (T: f32 f16 bf16 f64)
 * y[c] = x[c mod input_shape]: tiles x along every axis. An output extent need not be a multiple of the input's.
 *   host  input_shape: i32 [rank]
 *   host  output_shape: i32 [rank]
 *   host  stride_x: i64 [rank]
 *   host  stride_y: i64 [rank]
 *   in    x: T [input_shape]
 *   out   y: T [output_shape]
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_repeat_f32_run(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_f32_can_implement(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, const void* y);
BARACUDA_API int32_t baracuda_kernels_repeat_f16_run(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_f16_can_implement(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, const void* y);
BARACUDA_API int32_t baracuda_kernels_repeat_bf16_run(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_bf16_can_implement(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, const void* y);
BARACUDA_API int32_t baracuda_kernels_repeat_f64_run(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, void* y, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_f64_can_implement(int64_t output_numel, int32_t rank, const int32_t* input_shape, const int32_t* output_shape, const int64_t* stride_x, const int64_t* stride_y, const void* x, const void* y);

/*
 * repeat_backward_{T}  (T: f32 f16 bf16 f64)
 * dx[c] = sum over k in [0, repeats) of dy[c + k * input_shape]; zero where a repeat is 0.
 *   host  input_shape: i32 [rank]
 *   host  repeats: i32 [rank]
 *   host  stride_dy: i64 [rank]
 *   host  stride_dx: i64 [rank]
 *   in    dy: T [input_shape * repeats]
 *   out   dx: T [input_shape]
 *   workspace optional: splits long sums over the chip
 *   deterministic
 */
BARACUDA_API int32_t baracuda_kernels_repeat_backward_f32_run(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, void* dx, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_f32_can_implement(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, const void* dx);
BARACUDA_API size_t baracuda_kernels_repeat_backward_f32_workspace_size(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_f16_run(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, void* dx, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_f16_can_implement(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, const void* dx);
BARACUDA_API size_t baracuda_kernels_repeat_backward_f16_workspace_size(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_bf16_run(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, void* dx, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_bf16_can_implement(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, const void* dx);
BARACUDA_API size_t baracuda_kernels_repeat_backward_bf16_workspace_size(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_f64_run(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, void* dx, void* workspace, size_t workspace_bytes, void* stream);
BARACUDA_API int32_t baracuda_kernels_repeat_backward_f64_can_implement(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx, const void* dy, const void* dx);
BARACUDA_API size_t baracuda_kernels_repeat_backward_f64_workspace_size(int64_t input_numel, int32_t rank, const int32_t* input_shape, const int32_t* repeats, const int64_t* stride_dy, const int64_t* stride_dx);

#ifdef __cplusplus
}
#endif

#endif /* BARACUDA_KERNELS_H */
