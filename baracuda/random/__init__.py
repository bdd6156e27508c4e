# SPDX-License-Identifier: Apache-2.0
"""Random arrays, dropout and initialisers, by a generator that counts what it has drawn.

    rng = bk.Generator(7)
    x = bk.random.normal((3, 5), generator=rng)  # the same bits on every device
    y = bk.random.uniform((3, 5), -1, 1, generator=rng, like=x)

Functions take `generator`, a Generator or its state in device memory, or `seed` for the start of a stream; without
both they draw from `default_generator()`. Results are beside `like` and have its dtype, unless `dtype` says otherwise;
without `like` they are f32, NumPy arrays of the CPU library and TensorRefs of the CUDA library. `out` takes the result.
Functions on arrays with a seed and an offset (`bk.uniform_like`, `bk.dropout` ...) are those of the op table.
"""

from baracuda.random.arrays import (
    advance,
    bernoulli,
    bits,
    cauchy,
    exponential,
    geometric,
    gumbel,
    integers,
    laplace,
    log_normal,
    logistic,
    normal,
    poisson,
    truncated_normal,
    uniform,
)
from baracuda.random.choices import choice, multinomial, permutation, shuffle
from baracuda.random.generator import Generator, default_generator, manual_seed
from baracuda.random.initialisers import (
    gain,
    kaiming_normal,
    kaiming_uniform,
    orthogonal,
    xavier_normal,
    xavier_uniform,
)

__all__ = [
    "Generator", "advance", "bernoulli", "bits", "cauchy", "choice", "default_generator", "exponential", "gain",
    "geometric", "gumbel", "integers", "kaiming_normal", "kaiming_uniform", "laplace", "log_normal", "logistic",
    "manual_seed", "multinomial", "normal", "orthogonal", "permutation", "poisson", "shuffle", "truncated_normal",
    "uniform", "xavier_normal", "xavier_uniform",
]  # fmt: skip
