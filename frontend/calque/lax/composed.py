"""What is a primitive in JAX and a function here: split_p, stack_p, device_put_p and their like.

Libraries put rules of their own under these names, and bind them.  Imports the rest of lax.
Start reading at `COMPOSED`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.types import Function
from calque.dispatch.sharded.shards import device_put
from calque.lax import cut, sort


class Composed:
    """A name of JAX's primitives: bind(*arrays, **params) calls a function of the same meaning.

    Programs do not have it: what it computes is traced, differentiated and mapped as it is.
    """

    def __init__(self, name: str, bind: Function, multiple_results: bool = False) -> None:
        self.name, self.bind, self.multiple_results = name, bind, multiple_results

    def __repr__(self) -> str:
        return self.name


def _approx_top_k(operand: Any, *, k: int, is_max_k: bool, **params: Any) -> list[Any]:
    find = sort.approx_max_k if is_max_k else sort.approx_min_k
    return list(find(operand, k, **params))


def _device_put(*xs: Any, devices: Sequence[Any], srcs: Any = None, copy_semantics: Any = None
                ) -> list[Any]:
    return [device_put(x, device) for x, device in zip(xs, devices, strict=True)]


COMPOSED = {c.name: c for c in (
    Composed("split", lambda x, *, sizes, axis: cut.split(x, sizes, axis), True),
    Composed("stack", lambda *xs, axis: cut.stack(xs, axis)),
    Composed("unstack", lambda x, *, axis: list(cut.unstack(x, axis)), True),
    Composed("tile", lambda x, *, reps: cut.tile(x, reps)),
    Composed("approx_top_k", _approx_top_k, True),
    Composed("device_put", _device_put, True))}
