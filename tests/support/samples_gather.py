"""Samples of gather and the scatter family: every form of dimension numbers, mode and index.

More rows of samples.py, which imports this module at its end; the oracle lies in oracle_gather.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from support.samples import ANY, FLOAT8, NUMBER, Operand, Sample, op, row, special

MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "promise": GatherScatterMode.PROMISE_IN_BOUNDS,
}
_FAR = 2**31 - 1


def fills(dtype: Any) -> Any:
    return True if dtype == np.dtype(bool) else 7


def _params(numbers: Any, mode: str, unique: bool = False, **rest: Any) -> dict[str, Any]:
    return {
        "dimension_numbers": numbers,
        "indices_are_sorted": False,
        "unique_indices": unique,
        "mode": MODES[mode],
        **rest,
    }


# (label, operand, indices, values of the indices, result axes, slice_sizes, numbers)
# numbers: (offset or window axes, collapsed or inserted axes, map, batching axes)
FORMS: list[tuple[str, tuple[int, ...], Any, tuple[int, ...], tuple[Any, ...]]] = [
    ("rows", (5, 4), [[0], [4], [-1], [5], [2], [2]], (1, 4), ((1,), (0,), (0,))),
    ("elements", (5,), [[0], [4], [-7], [_FAR], [1], [1]], (1,), ((), (0,), (0,))),
    ("columns", (3, 5), [[0], [4], [5], [-_FAR], [4]], (3, 1), ((0,), (1,), (1,))),
    (
        "two positions",
        (3, 4),
        [[0, 0], [2, 3], [1, 4], [-1, 2], [2, 3]],
        (1, 1),
        ((), (0, 1), (0, 1)),
    ),
    ("positions exchanged", (3, 4), [[0, 0], [3, 2], [1, 3], [0, 3]], (1, 1), ((), (0, 1), (1, 0))),
    ("windows", (5, 6), [[0, 0], [3, 3], [4, 0], [1, 4], [2, 2]], (2, 3), ((1, 2), (), (0, 1))),
    ("windows of rows", (5, 3), [[0], [3], [4], [1]], (2, 3), ((1, 2), (), (0,))),
    ("window axes first", (4, 3, 5), [[0], [3], [9]], (2, 3, 5), ((0, 1, 3), (), (0,))),
    ("index matrix", (5, 4), [[[0], [1]], [[4], [9]], [[2], [2]]], (1, 4), ((1,), (0,), (0,))),
    ("one window", (5, 4), [3, 2], (2, 3), ((0, 1), (), (0, 1))),
    ("one outside", (5, 4), [4, -1], (1, 4), ((0,), (0,), (0, 1))),
    ("one position", (5, 4), [[9]], (1, 4), ((1,), (0,), (0,))),
    ("no position", (2, 3), np.zeros((4, 0)), (2, 3), ((1, 2), (), ())),
    ("part without position", (4, 3), [[0], [1], [3]], (2, 1), ((1,), (1,), (1,))),
    ("batched", (3, 5), [[[0], [4]], [[9], [1]], [[2], [2]]], (1, 1), ((), (1,), (1,), (0,), (0,))),
    (
        "batched rows",
        (3, 5, 4),
        [[[0], [4]], [[9], [1]], [[2], [2]]],
        (1, 1, 4),
        ((2,), (1,), (1,), (0,), (0,)),
    ),
    (
        "batched inside",
        (5, 3),
        [[[0], [4], [2]], [[1], [-1], [9]]],
        (1, 1),
        ((), (0,), (0,), (1,), (1,)),
    ),
    ("wide rows", (4, 70), [[0], [3], [1], [3], [-1]], (1, 70), ((1,), (0,), (0,))),
    ("of one", (1,), [[0], [0], [1]], (1,), ((), (0,), (0,))),
    ("whole window", (2, 3), [[0, 0], [1, 0]], (2, 3), ((1, 2), (), (0, 1))),
    ("empty windows", (2, 3), [[0], [1]], (1, 0), ((1,), (0,), (0,))),
    ("no indices", (2, 3), np.zeros((0, 1)), (1, 3), ((1,), (0,), (0,))),
    ("empty operand", (0, 3), np.zeros((0, 1)), (0, 3), ((1, 2), (), (0,))),
]


def _indices(values: Any, dtype: Any = "i4") -> Any:
    return Operand((), np.dtype(dtype), values=np.array(values))


def _gather(
    label: str,
    shape: tuple[int, ...],
    values: Any,
    sizes: tuple[int, ...],
    numbers: tuple[Any, ...],
    mode: str,
    dtype: Any = "i4",
) -> Any:
    d = GatherDimensionNumbers(*numbers)

    def params(kind: Any) -> dict[str, Any]:
        return _params(
            d, mode, slice_sizes=sizes, fill_value=fills(kind) if mode == "fill" else None
        )

    return Sample(f"{label}, {mode}", (op(*shape), _indices(values, dtype)), params)


def _updates(values: Any, sizes: tuple[int, ...], d: Any) -> tuple[int, ...]:
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    window = iter(s for a, s in enumerate(sizes) if a not in dropped)
    batch = iter(np.shape(values)[:-1])
    rank = len(np.shape(values)) - 1 + len(d.update_window_dims)
    return tuple(next(window) if i in d.update_window_dims else next(batch) for i in range(rank))


def _scatter(
    label: str,
    shape: tuple[int, ...],
    values: Any,
    sizes: tuple[int, ...],
    numbers: tuple[Any, ...],
    mode: str,
    dtype: Any = "i4",
    unique: bool = False,
) -> Any:
    d = ScatterDimensionNumbers(*numbers)
    return Sample(
        f"{label}, {mode}",
        (op(*shape), _indices(values, dtype), op(*_updates(values, sizes, d))),
        _params(d, mode, unique, update_jaxpr=None, update_consts=()),
    )


_TYPES = [
    ("i1", [[0], [4], [-128], [127]]),
    ("u1", [[0], [4], [255]]),
    ("u4", [[0], [4], [2**32 - 1]]),
    ("i8", [[0], [4], [2**40], [-(2**60)]]),
    ("u8", [[0], [4], [2**64 - 1]]),
    ("i2", [[0], [4], [-1]]),
]


def gather_samples() -> list[Sample]:
    made = [_gather(*f, "fill" if k % 2 == 0 else "clip") for k, f in enumerate(FORMS)]
    made += [_gather(*f, "clip" if k % 2 == 0 else "fill") for k, f in enumerate(FORMS)]
    # (a promise that is broken has no derivative of what is computed: tests/lowering/test_fills)
    made.append(_gather("rows inside", (5, 4), [[0], [4], [2], [4]], *FORMS[0][3:], "promise"))
    return made + [
        _gather(f"{t} indices", (5, 4), v, (1, 4), ((1,), (0,), (0,)), "fill", t) for t, v in _TYPES
    ]


def scatter_samples(forms: Any = FORMS) -> list[Sample]:
    made = [_scatter(*f, "fill" if k % 2 == 0 else "clip") for k, f in enumerate(forms)]
    return [*made, _scatter(*FORMS[0], "promise"), _scatter(*FORMS[5], "fill")]


def unique_samples() -> list[Sample]:
    """Forms without an element written twice (the derivative of a product needs them)."""
    few = ("one window", "one outside", "empty windows", "no indices", "empty operand")
    return [
        _scatter(
            "rows", (5, 4), [[0], [4], [7], [2]], (1, 4), ((1,), (0,), (0,)), "fill", unique=True
        ),
        _scatter(
            "two positions",
            (3, 4),
            [[0, 0], [2, 3], [1, 2]],
            (1, 1),
            ((), (0, 1), (0, 1)),
            "clip",
            unique=True,
        ),
        *[_scatter(*f, "fill", unique=True) for f in FORMS if f[0] in few],
    ]


def scatter_types() -> list[Sample]:
    return [
        _scatter(f"{t} indices", (5, 4), v, (1, 4), ((1,), (0,), (0,)), "fill", t)
        for t, v in _TYPES
    ]


def scatter_specials() -> list[Sample]:
    """Special values meeting each other, several in one place too; and every dtype's duplicates."""
    n = 24  # as many as a dtype has special values

    def some(dtype: Any) -> Any:
        return np.resize(special(dtype), n)

    params = _params(
        ScatterDimensionNumbers((), (0,), (0,)), "fill", update_jaxpr=None, update_consts=()
    )
    normal = _scatter(*FORMS[0], "fill")
    indices = Operand((), "i4", values=np.arange(n * n)[:, None] // n)
    return [
        normal,
        Sample(
            "special",
            (Operand(values=some), indices, Operand(values=lambda d: np.tile(some(d), n))),
            params,
        ),
    ]


_SOME = [
    f
    for f in FORMS
    if f[0]
    in (
        "rows",
        "windows",
        "one window",
        "one outside",
        "of one",
        "batched",
        "wide rows",
        "empty windows",
    )
]
row("gather", ANY + FLOAT8, gather_samples(), linear=(0,))
row("scatter", ANY + FLOAT8, [*scatter_samples(), *scatter_types()], linear=(0, 2))
row("scatter-add", NUMBER + FLOAT8, scatter_samples(), linear=(0, 2), normwise=True, factor=2.0)
row("scatter-sub", NUMBER, scatter_samples(_SOME), linear=(0, 2), normwise=True, factor=2.0)
row("scatter-mul", NUMBER, unique_samples(), linear=(0, 2), low=0.5, factor=2.0)
row("scatter-min", ANY, scatter_samples(_SOME), specials=scatter_specials())
row("scatter-max", ANY, scatter_samples(_SOME), specials=scatter_specials())
