"""Linear algebra: C kernels where the target has them, else the Programs that primitives give.

One function per primitive calls the C entry (lowering/native/README.md: operands, results, work
space in elements, scalars); `_form` chooses.  Start reading at `_form`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import Dim, guess, max_dim, min_dim, operation
from calque.core.errors import InconclusiveDimensionOperation
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels.dispatch import Spec
from calque.lowering.kernels.forms import FORMS, form_of
from calque.lowering.kernels.native import NATIVE_DTYPES, emit_native
from calque.lowering.passes.cost import is_open

GROUPS = 64  # workgroups that a batch is spread over at most
WORTH = 4096  # elements that a workgroup should have

Native = Callable[[Op], list[Value]]


@rule("cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation", "geqrf", "geqp3",
      "householder_product", "qr", "eigh", "svd", "tridiagonal", "hessenberg",
      "tridiagonal_solve", "cholesky_update", "pinv")
def _form(op: Op) -> list[Value]:
    e = op.ctx.equation
    name = e.name
    if name in NATIVE:
        kind = form_of(name, op.ctx.target, op.x.dtype, op.ctx.in_process)
        if kind == "native" and not op.params.get("perturb_singular") and not _is_closed(op):
            return NATIVE[name](op)
        if is_open(e):
            raise InconclusiveDimensionOperation("only the C kernels take matrices of any size.")
    assert e.primitive.program is not None, e.primitive
    p = e.primitive.program(*[a.aval for a in e.inputs], **op.params)
    return op.ctx.emit_program(p, op.operands)


def _is_closed(op: Op) -> bool:
    """Whether the Program has no loop: eigh of real matrices of two rows, in batches of known
    size."""
    e, x = op.ctx.equation, op.operands[0]
    return e.name == "eigh" and x.shape[-1] == 2 and x.dtype.kind == "f" and not is_open(e)


def _batch(x: Value, cores: int = 2) -> int:
    return math.prod(x.shape[:x.ndim - cores])


def _groups(x: Value, batch: int) -> int:
    """How many workgroups share the batch."""
    return int(max(1, min(GROUPS, guess(batch), guess(math.prod(x.shape)) // WORTH)))


def _native(op: Op, scalars: Sequence[Any], work: Any = 0, entry: str = "",
            outs: Sequence[ShapedArray] | None = None) -> list[Value]:
    """The results of the entry of an equation's primitive."""
    results = [(o.shape, o.dtype) for o in outs or op.outs]
    name = op.ctx.equation.name
    return call_native(op.ctx, name, op.operands, results, scalars, work, entry)


def call_native(ctx: Context, name: str, xs: Sequence[Value], results: Sequence[Spec],
                scalars: Sequence[Any], work: Any = 0, entry: str = "", work_dtype: Any = None
                ) -> list[Value]:
    """The results of a primitive's entry; its batch, the first scalar, is spread over workgroups,
    each with `work` elements (of the operands' dtype, or work_dtype) to work in."""
    groups = _groups(max(xs, key=lambda x: guess(math.prod(x.shape))), scalars[0])
    symbol = f"calque_{entry or name}_{NATIVE_DTYPES[xs[0].dtype.name]}"
    batch = scalars[0]
    rooms = groups  # (written out where min_dim would note that the batch has an element)
    if groups > 1 and isinstance(batch, Dim):
        rooms = operation("min", batch, groups)
    more = [((work * rooms,), work_dtype or xs[0].dtype)] if work else []
    form = next(f for f in FORMS[name] if f.kind == "native")
    return emit_native(ctx, form.source, symbol, xs, [*results, *more], scalars, groups, batch)


def _cholesky(op: Op) -> list[Value]:
    return _native(op, (_batch(op.x), op.x.shape[-1]))


def _lu(op: Op) -> list[Value]:
    return _native(op, (_batch(op.x), *op.x.shape[-2:]))


def _triangular_solve(op: Op) -> list[Value]:
    b = op.operands[1]
    n, m = b.shape[-2:] if op["left_side"] else b.shape[:-3:-1]
    flags = [int(op[k]) for k in ("left_side", "lower", "transpose_a", "conjugate_a",
                                  "unit_diagonal")]
    return _native(op, (_batch(b), n, m, *flags))


def _reflections(m: Any, n: Any) -> Any:
    """Work space of blocks of 32 reflections."""
    return 32 * m + 64 * n + 2048


def _geqrf(op: Op) -> list[Value]:
    m, n = op.x.shape[-2:]
    return _native(op, (_batch(op.x), m, n), _reflections(m, n))[:2]


def _geqp3(op: Op) -> list[Value]:
    m, n = op.x.shape[-2:]
    return _native(op, (_batch(op.x), m, n), 3 * n)[:3]


def _householder_product(op: Op) -> list[Value]:
    (m, n), k = op.x.shape[-2:], op.operands[1].shape[-1]
    return _native(op, (_batch(op.x), m, n, k), _reflections(m, n))[:1]


def _eigh(op: Op) -> list[Value]:
    a, b = op.x, op.b
    n = a.shape[-1]
    if not op["lower"]:  # the upper triangle is the conjugate of the lower of a^T
        a = b.transpose(a, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))
        a = b.complex(b.real(a), -b.imag(a)) if a.dtype.kind == "c" else a
        op = replace(op, operands=[a])
    batch = _batch(a)
    if not op["compute_vectors"]:
        return _native(op, (batch, n), n * n + 16 * n, "eigvalsh")[:1]
    return _native(op, (batch, n), 2 * n * n + 192 * n + 2048)[:2]


def _svd(op: Op) -> list[Value]:
    m, n = op.x.shape[-2:]
    p, k, batch = max_dim(m, n), min_dim(m, n), _batch(op.x)
    if not op["compute_uv"]:
        return _native(op, (batch, m, n), p * (2 * k + 208) + 4096, "svdvals")[:1]
    full = op["full_matrices"]
    s, u, vh = op.outs
    room = p * (2 * k + 208) + 2 * k * (k + 80) + p * (p if full else k) + 4096
    left, values, right = _native(op, (batch, m, n, int(full)), room, outs=[u, s, vh])[:3]
    return [values, left, right]


def _tridiagonal(op: Op) -> list[Value]:
    n = op.x.shape[-1]
    return _native(op, (_batch(op.x), n, int(op["lower"])), n * n + 16 * n, "sytrd")[:4]


def _tridiagonal_solve(op: Op) -> list[Value]:
    b = op.operands[3]
    n, m = b.shape[-2:]
    return _native(op, (_batch(b), n, m), 3 * n, "gtsv")[:1]


def _hessenberg(op: Op) -> list[Value]:
    n = op.x.shape[-1]
    return _native(op, (_batch(op.x), n), n * n + 64 * n + 512, "gehrd")[:2]


NATIVE: dict[str, Native] = {
    "cholesky": _cholesky, "lu": _lu, "triangular_solve": _triangular_solve, "geqrf": _geqrf,
    "geqp3": _geqp3, "householder_product": _householder_product, "eigh": _eigh, "svd": _svd,
    "tridiagonal": _tridiagonal, "tridiagonal_solve": _tridiagonal_solve,
    "hessenberg": _hessenberg}
