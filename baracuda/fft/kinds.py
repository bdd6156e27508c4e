# SPDX-License-Identifier: Apache-2.0
"""Enumeration of Fourier transforms."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class FftKind(IntEnum):
    FFT = 0
    RFFT = 1
    IRFFT = 2
    FFT_ND = 3
    RFFT_ND = 4
    IRFFT_ND = 5
    FFT_SHIFT_ND = 6
