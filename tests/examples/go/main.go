// Sums rows by segment, ids in any order, with the workspace that the op asks for; then a call that fails.
package main

// After `make install` this finds header and library; CGO_CFLAGS and CGO_LDFLAGS, as the tests set them, do as well:
//     #cgo pkg-config: baracuda_kernels_cpu

// #include <baracuda_kernels.h>
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

func sum(rows int, x []float32, ids []int32, y []float32) error {
	runtime.LockOSThread() // the text of an error is its thread's
	defer runtime.UnlockOSThread()
	bytes := C.baracuda_kernels_unsorted_segment_sum_f32_workspace_size(C.int32_t(rows), 2, 4)
	workspace := make([]byte, bytes+1) // never empty, so that it has an address
	// Host memory, for the CPU library. With the CUDA library these are device pointers, and the last argument a stream.
	status := C.baracuda_kernels_unsorted_segment_sum_f32_run(C.int32_t(rows), 2, 4, unsafe.Pointer(&x[0]),
		unsafe.Pointer(&ids[0]), unsafe.Pointer(&y[0]), unsafe.Pointer(&workspace[0]), bytes, nil)
	if status != C.BARACUDA_STATUS_OK {
		name, text := C.baracuda_kernels_status_name(status), C.baracuda_kernels_last_error()
		return fmt.Errorf("%s: %s", C.GoString(name), C.GoString(text))
	}
	return nil
}

func main() {
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} // 6 rows of 2
	ids := []int32{2, 0, 3, 2, 0, 2}
	y := make([]float32, 4*2)
	if err := sum(6, x, ids, y); err != nil {
		panic(err)
	}
	for s := 0; s < 4; s++ {
		fmt.Println(y[2*s], y[2*s+1])
	}
	fmt.Println(sum(-6, x, ids, y))
}
