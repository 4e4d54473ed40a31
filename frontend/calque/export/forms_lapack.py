"""eig and schur, which StableHLO lacks: LAPACK's routines by the names that JAX promises to keep,
for functions that are exported for CPUs only.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.export.errors import UnsupportedOperationError
from calque.export.forms import I32
from calque.export.hlo import Enum, Number, Special, Tensor
from calque.export.vhlo import Dense
from calque.export.write import Use, Writer, rule
from calque.lowering.emit.builder import Value

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_BYTE = np.dtype("u1")


def _layout(rank: int, matrix: bool) -> Dense:
    """Axes from the fastest on; LAPACK's matrices are stored by columns."""
    order = list(range(rank))[::-1]
    if matrix:
        order[:2] = order[1::-1]
    return Dense(Tensor((rank,), Special("index")), np.asarray(order, np.int64).tobytes())


def _call(w: Writer, routine: str, x: Value, results: Sequence[tuple[tuple[int, ...], Any]],
          **flags: str) -> list[Value]:
    """lapack_<routine>_ffi on the matrices x; results are of core rank 2, 1 or 0."""
    name = w.equation.name
    if w.platforms != ("cpu",):
        raise UnsupportedOperationError(explain(
            f"{name}: this primitive has no portable form in StableHLO for platforms "
            f"{w.platforms}.", where=str(w.equation.source),
            fix="export the function with platforms=('cpu',), where LAPACK computes it."))
    batch = len(x.shape) - 2
    return w.b.make(
        "custom_call", [x], [(s, np.dtype(d)) for s, d in results],
        call_target_name=f"lapack_{_LETTERS[x.dtype.name]}{routine}_ffi", has_side_effect=False,
        api_version=Enum("api_version", "API_VERSION_TYPED_FFI"), called_computations=(),
        backend_config={k: Number(ord(v), _BYTE) for k, v in flags.items()},
        operand_layouts=(_layout(len(x.shape), True),), output_operand_aliases=(),
        result_layouts=tuple(_layout(len(s), len(s) - batch == 2) for s, _ in results))


def _or_nan(w: Writer, x: Value, info: Value) -> Value:
    """NaN where LAPACK failed."""
    b = w.b
    ok = b.broadcast(info.eq(0), x.shape, range(len(info.shape)))
    return b.select(ok, x, b.like(x, np.nan))


@rule("eig")
def _eig(use: Use) -> list[Value]:
    x, b = use.x, use.b
    if 0 in x.shape:
        return [b.splat(0, a.shape, a.dtype) for a in use.outs]
    values, batch = x.shape[:-1], x.shape[:-2]
    wide = use.out.dtype
    left, right = use["compute_left_eigenvectors"], use["compute_right_eigenvectors"]
    parts = [(values, x.dtype)] * (1 if x.dtype.kind == "c" else 2)
    *found, vl, vr, info = _call(
        use.w, "geev", x, [*parts, (x.shape, wide), (x.shape, wide), (batch, I32)],
        compute_left="V" if left else "N", compute_right="V" if right else "N")
    eigenvalues = found[0] if len(found) == 1 else b.complex(*found)
    kept = [eigenvalues, *([vl] if left else []), *([vr] if right else [])]
    return [_or_nan(use.w, v, info) for v in kept]


@rule("schur")
def _schur(use: Use) -> list[Value]:
    x, b = use.x, use.b
    if 0 in x.shape:
        return [b.splat(0, a.shape, a.dtype) for a in use.outs]
    batch = x.shape[:-2]
    vectors = use["compute_schur_vectors"]
    parts = [(x.shape[:-1], x.dtype)] * (1 if x.dtype.kind == "c" else 2)
    made = _call(use.w, "gees", x, [(x.shape, x.dtype), (x.shape, x.dtype), *parts, (batch, I32),
                                (batch, I32)], mode="V" if vectors else "N", sort="N")
    return [_or_nan(use.w, v, made[-1]) for v in made[:1 + vectors]]
