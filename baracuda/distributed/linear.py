# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weights are divided among ranks (Shoeybi et al. 2019), with sequence parallelism (Korthikanti et
al. 2022). Weights are (out, in), activations (..., features).

A column-parallel layer has rows of the weight, so that each rank computes some of the outputs; a row-parallel one has
columns of it, takes those features as input, and its partial products are added. One after the other need one
all-reduce in each direction. With sequence=True the activations outside of the pair are divided among the ranks by
their first axis: the first layer gathers them, the second reduces and scatters, which moves the same bytes, and norms
between the pairs work on 1 / P of the rows.

chunks > 1 divides the rows, so that on GPUs the exchange of one chunk runs beside the product of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baracuda import functions
from baracuda._arrays.shaping import reshaped
from baracuda.distributed.communicator import Communicator
from baracuda.distributed.streams import Side
from baracuda.errors import InvalidProblemError


def column_parallel_linear(
    comm: Communicator, x: Any, weight: Any, bias: Any = None, *, gather: bool = False, sequence: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """This rank's outputs x weight' + bias, with weight (out / P, in) and bias (out / P,); all of them, (..., out),
    with gather. x is the same on all ranks, or this rank's rows with sequence.
    """
    whole = comm.all_gather(x) if sequence else x
    if not gather:
        return functions.linear(whole, weight, bias, out=out)
    return gather_features(comm, functions.linear(whole, weight, bias), out=out)


def column_parallel_linear_backward(
    comm: Communicator, dy: Any, x: Any, weight: Any, *, has_bias: bool = False, sequence: bool = False,
    gathered: bool = False, chunks: int = 1,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of x, weight and, with has_bias, the bias. dy are those of this rank's outputs, or of all outputs with
    gathered. The gradient of x is the sum over the ranks, or this rank's rows of it with sequence.
    """
    own = scatter_features(comm, dy) if gathered else dy
    whole = comm.all_gather(x) if sequence else x
    rows = _rows(own)
    dweight = functions.matmul(_transposed(rows), _rows(whole))
    shape = (*own.shape[:-1], weight.shape[1])
    if sequence:
        dx = comm.reduce_scatter(functions.matmul(own, weight))
    else:
        dx = _in_chunks(
            comm, rows, lambda part, into: functions.matmul(part, weight, out=into), weight.shape[1], chunks
        )
        dx = reshaped(dx, shape)
    return (dx, dweight, functions.sum(rows, axis=0)) if has_bias else (dx, dweight)


def row_parallel_linear(
    comm: Communicator, x: Any, weight: Any, bias: Any = None, *, sequence: bool = False, chunks: int = 1
) -> Any:
    """The sum over ranks of x weight', plus the bias, with x (..., in / P) and weight (out, in / P). All outputs, or
    this rank's rows of them with sequence. The bias is added once, after the sum.
    """
    if sequence:
        y = comm.reduce_scatter(functions.linear(x, weight))
    else:
        y = _in_chunks(
            comm, _rows(x), lambda part, into: functions.linear(part, weight, out=into), weight.shape[0], chunks
        )
        y = reshaped(y, (*x.shape[:-1], weight.shape[0]))
    return y if bias is None else functions.add(y, bias, out=y)


def row_parallel_linear_backward(
    comm: Communicator, dy: Any, x: Any, weight: Any, *, has_bias: bool = False, sequence: bool = False
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of this rank's x and weight and, with has_bias, of the bias. Nothing is exchanged, unless dy are this
    rank's rows (sequence); the gradient of the bias is then the sum over all rows.
    """
    whole = comm.all_gather(dy) if sequence else dy
    rows = _rows(whole)
    dweight = functions.matmul(_transposed(rows), _rows(x))
    dx = functions.matmul(whole, weight)
    return (dx, dweight, functions.sum(rows, axis=0)) if has_bias else (dx, dweight)


def gather_features(comm: Communicator, x: Any, *, out: Any = None) -> Any:
    """(..., features / P) of each rank as (..., features)."""
    rows = _rows(x)
    parts = reshaped(comm.all_gather(rows, counts=[rows.shape[0]] * comm.size), (comm.size, *rows.shape))
    side_by_side = functions.permute(parts, (1, 0, 2))
    whole = reshaped(side_by_side, (*x.shape[:-1], comm.size * x.shape[-1]))
    return whole if out is None else functions.cast(whole, out.dtype, out=out)


def scatter_features(comm: Communicator, x: Any) -> Any:
    """This rank's share of the features, contiguous: the gradient of gather_features."""
    if x.shape[-1] % comm.size:
        raise InvalidProblemError(f"x has {x.shape[-1]} features, which {comm.size} ranks do not divide")
    share = x.shape[-1] // comm.size
    parts = reshaped(x, (-1 if not _count(x) else _count(x) // x.shape[-1], comm.size, share))
    own = functions.permute(parts, (1, 0, 2))[comm.rank]
    return reshaped(own, (*x.shape[:-1], share))


def share_of(name: str, count: int, size: int) -> int:
    """count / size; InvalidProblemError where it is no integer."""
    if count % size:
        raise InvalidProblemError(f"{name} is {count}, which {size} ranks do not divide")
    return count // size


def _in_chunks(comm: Communicator, x: Any, product: Callable[[Any, Any], Any], features: int, chunks: int) -> Any:
    """all_reduce(product(x)), by chunks of rows whose exchange overlaps with the next product on GPUs."""
    rows = x.shape[0]
    if chunks <= 1 or comm.backend == "cpu" or rows < 2 * chunks:
        y = product(x, None)
        return comm.all_reduce(y, out=y)
    y = _empty(x, (rows, features))
    side = Side(comm)
    step = -(-rows // chunks)
    for start in range(0, rows, step):
        part = y[start : start + step]
        product(x[start : start + step], part)

        def exchange(stream: int | None, part: Any = part) -> object:
            return comm.all_reduce(part, out=part, stream=stream)

        side.run(exchange, y)
    side.finish(y)
    return y


def _rows(x: Any) -> Any:
    """A matrix with the rows of x."""
    return x if len(x.shape) == 2 else reshaped(x, (_count(x) // max(x.shape[-1], 1), x.shape[-1]))


def _count(x: Any) -> int:
    total = 1
    for extent in x.shape:
        total *= int(extent)
    return total


def _transposed(x: Any) -> Any:
    return x.T


def _empty(like: Any, shape: tuple[int, ...]) -> Any:
    from baracuda._arrays.shaping import empty_like
    from baracuda.tensor import tensor

    return empty_like(like, shape, tensor(like, "x").dtype)
