# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of any length along any axes, under the names of numpy.fft.

    y = bk.fft.rfft(x, axis=0)            # x of NumPy, PyTorch, CuPy, JAX ...: y belongs to the framework of x
    z = bk.fft.ifft2(y, norm="ortho")

baracuda.torch.fft and baracuda.jax.fft have them with gradients. Plans of contiguous arrays are FftPlan, RfftPlan,
IrfftPlan, FftNdPlan, RfftNdPlan, IrfftNdPlan and FftShiftNdPlan.
"""

from baracuda.fft.functions import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
