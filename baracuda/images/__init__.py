# SPDX-License-Identifier: Apache-2.0
"""Images: resampling, sampling at positions, boxes, deformable convolution and pixels of bytes."""
