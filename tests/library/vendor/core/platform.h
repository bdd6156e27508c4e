// SPDX-License-Identifier: Apache-2.0
// Stands in for native/core/platform.h: host code of the CUDA library without CUDA, over a runtime that programs define.
#pragma once

#include <cstddef>
#include <cstdint>

#define BK_CUDA 1

struct CUstream_st;
using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess = 0 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaGetDevice(int* device);
