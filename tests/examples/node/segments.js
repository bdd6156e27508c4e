// Sums rows by segment, ids in any order, with the workspace that the op asks for; then a call that fails.
const koffi = require("koffi");

const library = koffi.load(process.env.BARACUDA_LIB || "libbaracuda_kernels.so");
// Prototypes are those of baracuda_kernels.h; arrays are handed over as they lie in memory.
const OP = "baracuda_kernels_unsorted_segment_sum_f32";
const size = library.func(`size_t ${OP}_workspace_size(int32_t n, int32_t d, int32_t num_segments)`);
const run = library.func(
  `int32_t ${OP}_run(int32_t n, int32_t d, int32_t num_segments, const void* input, const void* segment_ids, ` +
    `void* output, void* workspace, size_t workspace_bytes, void* stream)`,
);
const statusName = library.func("const char* baracuda_kernels_status_name(int32_t status)");
const lastError = library.func("const char* baracuda_kernels_last_error()");

function sum(rows, x, ids, y) {
  const workspace = new Uint8Array(Number(size(rows, 2, 4)));
  const status = run(rows, 2, 4, x, ids, y, workspace, workspace.length, null);
  if (status !== 0) throw new Error(`${statusName(status)}: ${lastError()}`);
}

const x = Float32Array.from({ length: 12 }, (_, i) => i + 1); // 6 rows of 2
const ids = Int32Array.of(2, 0, 3, 2, 0, 2);
const y = new Float32Array(4 * 2);
sum(6, x, ids, y);
for (let s = 0; s < 4; ++s) console.log(y[2 * s], y[2 * s + 1]);
try {
  sum(-6, x, ids, y);
} catch (error) {
  console.log(error.message);
}
