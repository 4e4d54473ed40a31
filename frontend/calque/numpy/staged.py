"""The stages of calque.numpy's functions: `jnp.sin.lower(x)`, as those of what `jit` gives.

JAX's functions of this name are jitted; these run eagerly and are plain functions, to which the
methods of a jitted one are added.  Start reading at `with_stages`.
"""
from __future__ import annotations

import functools
import types
from typing import Any

from calque.core.naming import signature_of
from calque.dispatch.jit import jit

# parameters whose values are part of a program: axes, shapes, dtypes and choices
STATIC = frozenset((
    "axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "copy", "correction", "ddof",
    "decimals", "deg", "descending", "dtype", "endpoint", "fill_value", "full_matrices",
    "hermitian", "indexing", "interpolation", "invert", "k", "keepdims", "kind", "length", "method",
    "mode", "N", "M", "n", "num", "offset", "ord", "order", "out_sharding", "precision",
    "preferred_element_type", "repeats", "rowvar", "shape", "side", "size", "sparse", "stable",
    "total_repeat_length", "UPLO"))
METHODS = ("lower", "trace", "eval_shape")


@functools.cache
def _jitted(f: Any) -> Any:
    signature = signature_of(f)
    names = () if signature is None else tuple(
        p.name for p in signature.parameters.values()
        if p.name in STATIC and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return jit(f, static_argnames=names)


def _stage(f: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(_jitted(f), method)(*args, **kwargs)


def with_stages(f: types.FunctionType) -> None:
    """Give a public function the methods of jitted ones."""
    for method in METHODS:
        setattr(f, method, functools.partial(_stage, f, method))


__all__ = ["METHODS", "with_stages"]
