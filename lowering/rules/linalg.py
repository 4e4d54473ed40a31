"""Linear algebra: C kernels where the target has them, else the Programs that primitives give.

One function per primitive calls the C entry (lowering/native/README.md: operands, results, work
space in elements, scalars); `_form` chooses.  Start reading at `_form`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.dims import Dim, guess, max_dim, min_dim, operation
from calque.core.errors import InconclusiveDimensionOperation
from calque.lowering.builder import Value
from calque.lowering.context import Context
from calque.lowering.forms import FORMS, form_of
from calque.lowering.kernels.dispatch import Spec
from calque.lowering.kernels.native import NATIVE_DTYPES, emit_native
from calque.lowering.passes.cost import is_open
from calque.lowering.rules.registry import rule

GROUPS = 64  # workgroups that a batch is spread over at most
WORTH = 4096  # elements that a workgroup should have

Native = Callable[[Context, list[Value], dict[str, Any], list[Spec]], list[Value]]


@rule("cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation", "geqrf", "geqp3",
      "householder_product", "qr", "eigh", "svd", "tridiagonal", "hessenberg",
      "tridiagonal_solve", "cholesky_update", "pinv")
def _form(ctx: Context, xs: list[Value], params: dict[str, Any],
          outs: list[ShapedArray]) -> list[Value]:
    e = ctx.equation
    name = e.primitive.name
    if name in NATIVE:
        kind = form_of(name, ctx.target, xs[0].dtype, ctx.in_process)
        if kind == "native" and not params.get("perturb_singular"):
            return NATIVE[name](ctx, xs, params, [(o.shape, o.dtype) for o in outs])
        if is_open(e):
            raise InconclusiveDimensionOperation("only the C kernels take matrices of any size.")
    assert e.primitive.program is not None, e.primitive
    return ctx.emit_program(e.primitive.program(*[a.aval for a in e.inputs], **params), xs)


def _batch(x: Value, cores: int = 2) -> int:
    return math.prod(x.shape[:len(x.shape) - cores])


def _groups(x: Value, batch: int) -> int:
    """How many workgroups share the batch."""
    return int(max(1, min(GROUPS, guess(batch), guess(math.prod(x.shape)) // WORTH)))


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


def _cholesky(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
              ) -> list[Value]:
    return call_native(ctx, "cholesky", xs, outs, (_batch(xs[0]), xs[0].shape[-1]))


def _lu(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]) -> list[Value]:
    return call_native(ctx, "lu", xs, outs, (_batch(xs[0]), *xs[0].shape[-2:]))


def _triangular_solve(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
                      ) -> list[Value]:
    a, b = xs
    n, m = b.shape[-2:] if params["left_side"] else b.shape[:-3:-1]
    flags = [int(params[k]) for k in ("left_side", "lower", "transpose_a", "conjugate_a",
                                      "unit_diagonal")]
    return call_native(ctx, "triangular_solve", xs, outs, (_batch(b), n, m, *flags))


def _reflections(m: Any, n: Any) -> Any:
    """Work space of blocks of 32 reflections."""
    return 32 * m + 64 * n + 2048


def _geqrf(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
           ) -> list[Value]:
    m, n = xs[0].shape[-2:]
    return call_native(ctx, "geqrf", xs, outs, (_batch(xs[0]), m, n), _reflections(m, n))[:2]


def _geqp3(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
           ) -> list[Value]:
    m, n = xs[0].shape[-2:]
    return call_native(ctx, "geqp3", xs, outs, (_batch(xs[0]), m, n), 3 * n)[:3]


def _householder_product(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
                         ) -> list[Value]:
    (m, n), k = xs[0].shape[-2:], xs[1].shape[-1]
    return call_native(ctx, "householder_product", xs, outs, (_batch(xs[0]), m, n, k),
                       _reflections(m, n))[:1]


def _eigh(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
          ) -> list[Value]:
    (a,), b = xs, ctx.b
    n = a.shape[-1]
    if not params["lower"]:  # the upper triangle is the conjugate of the lower of a^T
        a = b.transpose(a, (*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2))
        a = b.complex(b.real(a), -b.imag(a)) if a.dtype.kind == "c" else a
    batch = _batch(a)
    if not params["compute_vectors"]:
        return call_native(ctx, "eigh", [a], outs, (batch, n), n * n + 16 * n, "eigvalsh")[:1]
    return call_native(ctx, "eigh", [a], outs, (batch, n), 2 * n * n + 192 * n + 2048)[:2]


def _svd(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]) -> list[Value]:
    m, n = xs[0].shape[-2:]
    p, k, batch = max_dim(m, n), min_dim(m, n), _batch(xs[0])
    if not params["compute_uv"]:
        return call_native(ctx, "svd", xs, outs, (batch, m, n), p * (2 * k + 208) + 4096,
                           "svdvals")[:1]
    full = params["full_matrices"]
    s, u, vh = outs
    room = p * (2 * k + 208) + 2 * k * (k + 80) + p * (p if full else k) + 4096
    made = call_native(ctx, "svd", xs, [u, s, vh], (batch, m, n, int(full)), room)
    return [made[1], made[0], made[2]]


def _tridiagonal(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
                 ) -> list[Value]:
    n = xs[0].shape[-1]
    return call_native(ctx, "tridiagonal", xs, outs, (_batch(xs[0]), n, int(params["lower"])),
                       n * n + 16 * n, "sytrd")[:4]


def _tridiagonal_solve(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
                       ) -> list[Value]:
    n, m = xs[3].shape[-2:]
    return call_native(ctx, "tridiagonal_solve", xs, outs, (_batch(xs[3]), n, m), 3 * n,
                       "gtsv")[:1]


def _hessenberg(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[Spec]
                ) -> list[Value]:
    n = xs[0].shape[-1]
    return call_native(ctx, "hessenberg", xs, outs, (_batch(xs[0]), n), n * n + 64 * n + 512,
                       "gehrd")[:2]


NATIVE: dict[str, Native] = {
    "cholesky": _cholesky, "lu": _lu, "triangular_solve": _triangular_solve, "geqrf": _geqrf,
    "geqp3": _geqp3, "householder_product": _householder_product, "eigh": _eigh, "svd": _svd,
    "tridiagonal": _tridiagonal, "tridiagonal_solve": _tridiagonal_solve,
    "hessenberg": _hessenberg}
