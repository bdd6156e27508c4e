"""Other ways to say what the case table's peers say; on the CPU the fastest counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.bench.timing import Call

if TYPE_CHECKING:
    from tools.bench.table import Problem

Named = list[tuple[str, Call]]


def peers(problem: Problem, on_gpu: bool) -> Named:
    """(name, call) of each peer, the table's first; those of NumPy and the alternatives only for the CPU."""
    bench, named = problem.bench, []
    torch, arrays = problem.data.torch, problem.arrays
    if torch is not None:
        named.append(("torch", lambda: bench.peer(torch, problem.tensors, bench.scalars)))
        if not on_gpu and problem.row in _TORCH:
            named += [("torch", lambda: _TORCH[problem.row](torch, problem.tensors))]
    if not on_gpu and arrays is not None:
        if bench.numpy_peer is not None:
            named.append(("NumPy", lambda: bench.numpy_peer(arrays, bench.scalars)))
        if problem.row in _NUMPY:
            named.append(("NumPy", lambda: _NUMPY[problem.row](arrays)))
    return [(name, call) for name, make in named for call in _made(make)]


def _made(make: Callable[[], Call]) -> list[Call]:
    """The peer, if it runs: some lack a dtype."""
    try:
        call = make()
        call()
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    return [call]


def _index_add(torch: Any, t: dict[str, Any]) -> Call:
    return lambda: t["output"].zero_().index_add_(0, t["segment_ids"], t["input"])


def _expanded(torch: Any, t: dict[str, Any]) -> Call:
    x, y = t["x"], t["y"]
    rows, columns = x.shape
    tiles = y.view(y.shape[0] // rows, rows, y.shape[1] // columns, columns)
    return lambda: tiles.copy_(x.view(1, rows, 1, columns))


def _selected(torch: Any, t: dict[str, Any]) -> Call:
    return lambda: torch.index_select(t["d_output"], 0, t["segment_ids"], out=t["d_input"])


def _biased(torch: Any, t: dict[str, Any]) -> Call:
    scores = t["scores"]
    i, j = (torch.arange(extent, device=scores.device, dtype=scores.dtype) for extent in scores.shape[2:])
    distance, slopes = j - i[:, None], t["slopes"][:, None, None]
    return lambda: torch.add(scores, slopes * distance, out=t["y"])


def _contracted(torch: Any, t: dict[str, Any]) -> Call:
    dy = t["dy"]
    i, j = (torch.arange(extent, device=dy.device, dtype=dy.dtype) for extent in dy.shape[2:])
    distance = j - i[:, None]
    return lambda: (t["da"].copy_(dy), torch.einsum("bhij,ij->h", dy, distance))


def _tensordot(a: dict[str, Any]) -> Call:
    dy, da = a["dy"], a["da"]
    distance = (np.arange(dy.shape[3]) - np.arange(dy.shape[2])[:, None]).astype(dy.dtype)
    return lambda: (np.copyto(da, dy), np.tensordot(dy, distance, 2))


def _taken(a: dict[str, Any]) -> Call:
    return lambda: np.take(a["d_output"], a["segment_ids"], 0, out=a["d_input"], mode="clip")


_TORCH: dict[str, Callable[[Any, dict[str, Any]], Call]] = {
    "alibi_{T}": _biased,
    "alibi_backward_{T}": _contracted,
    "repeat_{T}": _expanded,
    "segment_sum{I}_{T}": _index_add,
    "segment_sum_backward{I}_{T}": _selected,
    "unsorted_segment_sum_backward{I}_{T}": _selected,
}
_NUMPY: dict[str, Callable[[dict[str, Any]], Call]] = {
    "alibi_backward_{T}": _tensordot,
    "segment_sum_backward{I}_{T}": _taken,
    "unsorted_segment_sum_backward{I}_{T}": _taken,
}
