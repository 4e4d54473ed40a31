"""The values of a random program and the random choices among them (see fuzz.py)."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.primitive import registry

SHAPES = [(), (1,), (4,), (0,), (2, 3), (3, 1), (1, 1), (2, 0), (6,), (2, 3, 2), (3, 3), (16,),
          (4, 8), (0, 3), (5, 7), (1, 2, 1)]
DTYPES = [np.dtype(d) for d in ("f4", "f4", "f4", "i4", "i4", "u1", "f8", "?", "i1", "u4", "i8",
                                "bfloat16", "f2", "c8")]


def bind(name: str, /, *xs: Any, **params: Any) -> Any:
    return registry[name].bind(*xs, **params)


@dataclass(slots=True)
class Value:
    """A traced value; exact: its bits are those of the oracle (no rounding on the way)."""

    x: Any
    exact: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def kind(self) -> str:
        kind = str(self.x.dtype.kind)
        return "f" if kind == "V" else kind  # bfloat16 is no dtype of NumPy's


class Pool:
    """The values so far and the random choices among them."""

    def __init__(self, rng: Any, values: list[Value]) -> None:
        self.rng, self.values = rng, values

    def pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        fit = [v for v in self.values if test(v)]
        return fit[self.rng.integers(len(fit))] if fit else None

    def like(self, v: Value | None, test: Callable[[Value], bool] = lambda v: True
             ) -> Value | None:
        """Another value of the same shape and dtype."""
        return None if v is None else self.pick(
            lambda w: (w.shape, w.x.dtype) == (v.shape, v.x.dtype) and test(w))

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def one_of(self, choices: Any) -> Any:
        return choices[self.number(0, len(choices))]

    def start(self) -> Any:
        """A start index, often out of range, of several dtypes."""
        dtype = np.dtype(str(self.rng.choice(["i4", "i8", "u1", "i1"])))
        info = np.iinfo(dtype)
        return np.asarray(self.rng.choice([0, 1, 2, info.max, info.min, 3])).astype(dtype)[()]

    def fitted(self, dtype: Any, shape: tuple[int, ...]) -> Value | None:
        """A value of this dtype cut from another of at least that size."""
        size = math.prod(shape)
        w = self.pick(lambda w: w.x.dtype == dtype and w.x.size >= size)
        if w is None:
            w = self.pick(lambda w: w.x.dtype == dtype and w.x.size == 1)
            return None if w is None else Value(bind(
                "broadcast_in_dim", reshape(w.x, ()), shape=shape, broadcast_dimensions=(),
                sharding=None), w.exact)
        x = reshape(w.x, (w.x.size,))
        first = self.number(0, w.x.size - size + 1)
        x = bind("slice", x, start_indices=(first,), limit_indices=(first + size,), strides=None)
        return Value(reshape(x, shape), w.exact)


Step = Callable[[Pool], Value | None]


def reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return bind("reshape", x, new_sizes=shape, dimensions=None, sharding=None)


def convert(x: Any, dtype: Any) -> Any:
    return bind("convert_element_type", x, new_dtype=np.dtype(dtype), weak_type=False,
                sharding=None)
