"""eig and schur: matrices without symmetry; leading axes are a batch.

They have no form in StableHLO: C kernels on CPU targets, NumPy's LAPACK for eig where there are
none (lowering/rules/spectral.py).  Start reading at `_eig_jvp`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, ndim_of, shape_of
from calque.core.dtypes import complex_dtype
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Shape
from calque.core.zeros import is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.elementwise import add, div, mul, sub
from calque.primitives.linalg import (
    adjoint,
    all_of,
    conj,
    identity_like,
    no_derivative,
    product,
    solved,
)
from calque.primitives.orthogonal import square
from calque.primitives.reduce import argmax_p, reduce_sum
from calque.primitives.sort import take_along
from calque.transforms.vmap import batch_first

eig_p = Primitive("eig", multiple_results=True)
schur_p = Primitive("schur", multiple_results=True, differentiable=False)
schur_p.jvp = no_derivative(schur_p)


# ---- eig: (values, left vectors, right vectors)
def _eig_abstract(a: ShapedArray, *, compute_left_eigenvectors: bool,
                  compute_right_eigenvectors: bool, enable_eigvec_derivs: bool,
                  implementation: Any) -> list[ShapedArray]:
    square("eig", a, "The input to eig must be a square matrix. Got shape")
    dtype = complex_dtype(a.dtype)
    vectors = ShapedArray(a.shape, dtype)
    asked = compute_left_eigenvectors + compute_right_eigenvectors
    return [ShapedArray(a.shape[:-1], dtype), *[vectors] * asked]


def _eig_jvp(primals: Sequence[Any], tangents: Sequence[Any], *,
             compute_left_eigenvectors: bool, compute_right_eigenvectors: bool,
             enable_eigvec_derivs: bool, implementation: Any) -> Any:
    """dw = diag(V^-1 dA V); vectors keep their length and a real largest element."""
    (a,), (t,) = primals, tangents
    params = {"enable_eigvec_derivs": enable_eigvec_derivs, "implementation": implementation}
    asked = {"compute_left_eigenvectors": compute_left_eigenvectors,
             "compute_right_eigenvectors": compute_right_eigenvectors}
    if is_zero(t) or not aval_of(a).size:
        outs = eig_p.bind(a, **asked, **params)
        return outs, [zero_like(o) for o in outs]
    if any(asked.values()) and not enable_eigvec_derivs:
        raise NotImplementedError(explain(
            "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the "
            "input that cannot be checked: eigenvalues that differ, vectors of length 1 whose "
            "largest element is real, and results that do not depend on that choice.",
            fix="pass enable_eigvec_derivs=True to lax.linalg.eig, or ask for no vectors."))
    w, left, right = eig_p.bind(a, compute_left_eigenvectors=True,
                                compute_right_eigenvectors=True, **params)
    if dtype_of(a).kind != "c":
        t = ew.complex_(t, all_of(t, 0))
    inner = solved(right, product(t, right))
    outs, dots = [w], [_diagonal(inner)]
    if compute_left_eigenvectors:
        mirrored = solved(left, product(adjoint(t), left))
        outs.append(left)
        dots.append(_turned(left, mirrored, conj(w)))
    if compute_right_eigenvectors:
        outs.append(right)
        dots.append(_turned(right, inner, w))
    return outs, dots


def _diagonal(a: Any) -> Any:
    return reduce_sum(mul(a, identity_like(a)), (ndim_of(a) - 1,))


def _along(w: Any, shape: Shape, axis: int) -> Any:
    rank = len(shape)
    return sh.broadcast_in_dim(w, shape, (*range(rank - 2), rank + axis))


def _turned(v: Any, inner: Any, w: Any) -> Any:
    """dV of eigenvectors v for w with V^-1 dA V: the sum over the others, then the gauge."""
    shape = shape_of(v)
    rank = len(shape)
    eye = identity_like(v)
    gaps = sub(_along(w, shape, -1), _along(w, shape, -2))
    moved = product(v, mul(sub(div(all_of(eye, 1), add(eye, gaps)), eye), inner))
    size = add(mul(ew.real(v), ew.real(v)), mul(ew.imag(v), ew.imag(v)))
    top = argmax_p.bind(size, axes=(rank - 2,), index_dtype=dtypes.int32)
    at = sh.broadcast_in_dim(top, (*shape[:-2], 1, shape[-1]), (*range(rank - 2), rank - 1))
    peak, slope = (sh.reshape(take_along(x, at, rank - 2), (*shape[:-2], shape[-1]))
                   for x in (v, moved))
    along = mul(ew.conj(v), moved)
    length = reduce_sum(ew.real(along), (rank - 2,))
    phase = div(ew.imag(slope), ew.real(peak))
    change = ew.complex_(ew.neg(length), ew.neg(phase))
    return add(moved, mul(v, _along(change, shape, -1)))


eig_p.abstract, eig_p.jvp, eig_p.batch = _eig_abstract, _eig_jvp, batch_first(eig_p)


# ---- schur: (form, vectors)
def _schur_abstract(a: ShapedArray, *, compute_schur_vectors: bool, sort_eig_vals: bool,
                    select_callable: Any) -> list[ShapedArray]:
    square("schur", a, "The input to schur must be a square matrix. Got shape")
    if sort_eig_vals:
        raise NotImplementedError(explain(
            "The sort feature of LAPACK's gees routine is not implemented.",
            fix="leave sort_eig_vals out."))
    return [a, a] if compute_schur_vectors else [a]


schur_p.abstract, schur_p.batch = _schur_abstract, batch_first(schur_p)
