# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of any length along any axes, under the names of numpy.fft and scipy.fft.

    y = bk.fft.rfft(x, axis=0)            # x of NumPy, PyTorch, CuPy, JAX ...: y belongs to the framework of x
    z = bk.fft.ifft2(y, norm="ortho")

baracuda.torch.fft and baracuda.jax.fft have them with gradients. Plans of contiguous arrays are FftPlan, RfftPlan,
IrfftPlan, FftNdPlan, RfftNdPlan, IrfftNdPlan and FftShiftNdPlan.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baracuda.fft.functions import dct as dct
    from baracuda.fft.functions import dctn as dctn
    from baracuda.fft.functions import dst as dst
    from baracuda.fft.functions import dstn as dstn
    from baracuda.fft.functions import fft as fft
    from baracuda.fft.functions import fft2 as fft2
    from baracuda.fft.functions import fftconvolve as fftconvolve
    from baracuda.fft.functions import fftfreq as fftfreq
    from baracuda.fft.functions import fftn as fftn
    from baracuda.fft.functions import fftshift as fftshift
    from baracuda.fft.functions import hfft as hfft
    from baracuda.fft.functions import hfft2 as hfft2
    from baracuda.fft.functions import hfftn as hfftn
    from baracuda.fft.functions import idct as idct
    from baracuda.fft.functions import idctn as idctn
    from baracuda.fft.functions import idst as idst
    from baracuda.fft.functions import idstn as idstn
    from baracuda.fft.functions import ifft as ifft
    from baracuda.fft.functions import ifft2 as ifft2
    from baracuda.fft.functions import ifftn as ifftn
    from baracuda.fft.functions import ifftshift as ifftshift
    from baracuda.fft.functions import ihfft as ihfft
    from baracuda.fft.functions import ihfft2 as ihfft2
    from baracuda.fft.functions import ihfftn as ihfftn
    from baracuda.fft.functions import irfft as irfft
    from baracuda.fft.functions import irfft2 as irfft2
    from baracuda.fft.functions import irfftn as irfftn
    from baracuda.fft.functions import rfft as rfft
    from baracuda.fft.functions import rfft2 as rfft2
    from baracuda.fft.functions import rfftfreq as rfftfreq
    from baracuda.fft.functions import rfftn as rfftn

__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftconvolve",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
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

if not TYPE_CHECKING:  # `import baracuda` needs the kinds alone

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.functions"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
