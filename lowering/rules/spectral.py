"""eig and schur: C kernels; eig also by NumPy, where the program runs in a Python process.

Start reading at `_spectral`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels.forms import form_of
from calque.lowering.rules.callback import call_host
from calque.lowering.rules.linalg import call_native


@rule("eig", "schur")
def _spectral(op: Op) -> list[Value]:
    e = op.ctx.equation
    a, name = op.x, e.name
    kind = form_of(name, op.ctx.target, a.dtype, op.ctx.in_process)
    if kind == "native":
        return (_eig if name == "eig" else _schur)(op)
    if kind == "host":
        return call_host(op, NumpyEig(**op.params))
    target = op.ctx.target.name if op.ctx.target else "this target"
    raise NotImplementedError(explain(
        f"{name}: no form of it for {target} ({a.dtype.name}).", where=str(e.source),
        fix="compile for a CPU target; `calque doctor` says whether the C kernels are there."))


def _eig(op: Op) -> list[Value]:
    a, dtype = op.x, op.out.dtype
    n, lead = a.shape[-1], a.shape[:-2]
    results = [((*lead, n), dtype), (a.shape, dtype), (a.shape, dtype)]
    w, left, right, _ = call_native(op.ctx, "eig", [a], results, (math.prod(lead), n),
                                    5 * n * n + 240 * n + 4096, "geev", dtype)
    return [w, *([left] if op["compute_left_eigenvectors"] else []),
            *([right] if op["compute_right_eigenvectors"] else [])]


def _schur(op: Op) -> list[Value]:
    a, n = op.x, op.x.shape[-1]
    made = call_native(op.ctx, "schur", [a], [(a.shape, a.dtype)] * 2,
                       (math.prod(a.shape[:-2]), n), 3 * n * n + 200 * n + 4096)
    return made[:len(op.outs)]


class NumpyEig:
    """LAPACK's geev as NumPy calls it; left vectors from the inverse of the right ones.

    They are NaN for matrices that have no full set of vectors.
    """

    def __init__(self, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool,
                 **_: Any) -> None:
        self.left, self.right = compute_left_eigenvectors, compute_right_eigenvectors

    def __call__(self, args: list[Any]) -> list[Any]:
        a = np.asarray(args[0])
        dtype = np.result_type(a.dtype, np.complex64)
        finite = np.isfinite(a).all((-1, -2))
        safe = np.where(finite[..., None, None], a, 0)
        w, right = np.linalg.eig(safe)
        w, right = (np.where(finite[(...,) + (None,) * k], x, np.nan).astype(dtype)
                    for x, k in ((w, 1), (right, 2)))
        made = [w]
        if self.left:
            made.append(_left_of(right))
        return [*made, right] if self.right else made


def _left_of(right: Any) -> Any:
    """Columns of right^-H, of length 1, their largest element real."""
    left = np.full_like(right, np.nan)
    for at in np.ndindex(*right.shape[:-2]):
        try:
            made = np.linalg.inv(right[at]).conj().T
        except np.linalg.LinAlgError:
            continue
        made = made / np.linalg.norm(made, axis=0)
        top = made[np.argmax(np.abs(made), 0), np.arange(len(made))]
        left[at] = made * (np.abs(top) / np.where(top == 0, 1, top))
    return left
