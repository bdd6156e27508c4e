// Sums rows by segment, ids in any order, with the workspace that the op asks for; then a call that fails.
use baracuda_sys::*;
use std::{ffi::CStr, os::raw::c_char, ptr::null_mut};

fn text(c: *const c_char) -> String {
    unsafe { CStr::from_ptr(c) }.to_string_lossy().into_owned()
}

fn sum(rows: i32, x: &[f32], ids: &[i32], y: &mut [f32], workspace: &mut [u8]) -> Result<(), String> {
    let (x, ids, y) = (x.as_ptr().cast(), ids.as_ptr().cast(), y.as_mut_ptr().cast());
    let (memory, bytes) = (workspace.as_mut_ptr().cast(), workspace.len());
    // Host memory, for the CPU library. With the CUDA library these are device pointers, and the last argument a stream.
    unsafe {
        match baracuda_kernels_unsorted_segment_sum_f32_run(rows, 2, 4, x, ids, y, memory, bytes, null_mut()) {
            BARACUDA_STATUS_OK => Ok(()),
            status => Err([baracuda_kernels_status_name(status), baracuda_kernels_last_error()].map(text).join(": ")),
        }
    }
}

fn main() {
    let x: Vec<f32> = (1..=12).map(|i| i as f32).collect(); // 6 rows of 2
    let ids = [2, 0, 3, 2, 0, 2];
    let mut y = [0.0; 4 * 2];
    let bytes = unsafe { baracuda_kernels_unsorted_segment_sum_f32_workspace_size(6, 2, 4) };
    let mut workspace = vec![0; bytes];
    sum(6, &x, &ids, &mut y, &mut workspace).unwrap();
    y.chunks(2).for_each(|row| println!("{} {}", row[0], row[1]));
    println!("{}", sum(-6, &x, &ids, &mut y, &mut workspace).unwrap_err());
}
