"""Operators and methods of sparse arrays, which are put on the classes here.

They go by BCOO; a product of two BCSR arrays is one again.  Start reading at `matmul`.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ndim_of
from calque.core.errors import explain
from calque.dispatch.replay import planned
from calque.experimental.sparse import elementwise
from calque.experimental.sparse.array import BCOO, JAXSparse
from calque.experimental.sparse.dots import bcoo_dot_general
from calque.experimental.sparse.rows import BCSR, COO, CSC, CSR, as_bcoo
from calque.experimental.sparse.shapes import bcoo_transpose, bcoo_update_layout
from calque.experimental.sparse.transform import sparsify
from calque.numpy import asarray, moveaxis


def _operand(x: Any) -> Any:
    return as_bcoo(x) if isinstance(x, JAXSparse) else asarray(x)


def matmul(a: Any, b: Any) -> Any:
    """a @ b, of which one or both are sparse."""
    a, b = _operand(a), _operand(b)
    if not a.ndim or not b.ndim:
        raise ValueError(explain(
            f"matmul of sparse arrays: shapes {a.shape} and {b.shape}.",
            fix="use * for scalars."))
    batch = min(a.ndim, b.ndim) - 2
    contract = (a.ndim - 1,), (max(b.ndim - 2, 0),)
    if a.ndim > 2 and b.ndim > 2:
        if a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
            raise NotImplementedError(explain(
                f"matmul of sparse arrays: batch shapes {a.shape[:-2]} and {b.shape[:-2]}.",
                fix="broadcast one of them first."))
        axes = tuple(range(batch))
        return bcoo_dot_general(a, b, dimension_numbers=(contract, (axes, axes)))
    made = bcoo_dot_general(a, b, dimension_numbers=(contract, ((), ())))
    if a.ndim == 2 and b.ndim > 2:  # the rows stand in front of b's batch dimensions
        if isinstance(made, BCOO):
            return bcoo_transpose(bcoo_update_layout(made, n_batch=0), permutation=(
                *range(1, made.ndim - 1), 0, made.ndim - 1))
        return moveaxis(made, 0, -2)
    return made


@planned
def _matmul(self: Any, other: Any) -> Any:
    made = matmul(self, other)
    return BCSR.from_bcoo(made) if isinstance(self, BCSR) and isinstance(made, BCOO) else made


@planned
def _rmatmul(self: Any, other: Any) -> Any:
    return matmul(other, self)


def _back(kind: type, made: Any) -> Any:
    """A BCOO result in the format of the operand."""
    return made if kind is BCOO or not isinstance(made, BCOO) else (
        kind.from_bcoo(made))  # type: ignore[attr-defined]


def _binary(f: Callable[[Any, Any], Any], turned: bool = False) -> Callable[[Any, Any], Any]:
    @planned
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, JAXSparse) and ndim_of(other):
            other = asarray(other)
        a, b = as_bcoo(self), as_bcoo(other)
        return _back(type(self), f(b, a) if turned else f(a, b))
    return method


def _unary(f: Callable[[Any], Any], linear: bool = False) -> Callable[[Any], Any]:
    @planned
    def method(self: Any) -> Any:
        return _back(type(self), elementwise.applied(as_bcoo(self), f, linear))
    return method


def _why(b: Any) -> str:
    if isinstance(b, int):
        return f"sparse rule for integer_pow with non-positive exponent {b}"
    return f"the power {b!r} of a sparse array"


def _power(a: Any, b: Any) -> Any:
    if isinstance(b, int) and b > 0:
        return elementwise.applied(a, lambda x: x ** b)
    raise NotImplementedError(explain(
        f"{_why(b)} is not implemented because it would result in dense output.",
        fix=elementwise.DENSE_FIX))


def _refused(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        raise NotImplementedError(explain(
            f"sparse rule for {name} is not implemented because it would result in dense output.",
            fix=elementwise.DENSE_FIX))
    return method


@planned
def _transpose(self: Any, axes: Sequence[int] | None = None) -> Any:
    """The array with its dimensions permuted; None: reversed, kind by kind."""
    if axes is None:
        b, s = self.n_batch, self.n_batch + self.n_sparse
        if self.n_batch or self.n_dense:
            raise NotImplementedError(explain(
                f"BCOO.transpose: n_batch={b}, n_dense={self.n_dense}, and no axes.",
                fix="give axes that permute dimensions of one kind."))
        axes = tuple(reversed(range(s)))
    return bcoo_transpose(self, permutation=axes)


def _of_dense(f: Callable[..., Any]) -> Callable[..., Any]:
    """A method that is f of the dense array, by sparsify."""
    @planned
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _back(type(self), sparsify(lambda x: f(x, *args, **kwargs))(as_bcoo(self)))
    return method


@planned
def _sum(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The sum over axes, as jnp.sum takes them; sparse, or dense where nothing sparse is left."""
    return _of_dense(lambda x: x.sum(*args, **kwargs))(self)


@planned
def _reshape(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The same elements in another shape, as jnp.reshape takes it."""
    return _of_dense(lambda x: x.reshape(*args, **kwargs))(self)


def _astype(self: Any, dtype: Any) -> Any:
    """The same with its data in another dtype."""
    return self.with_data(self.data.astype(dtype))


OPERATORS: dict[str, Callable[..., Any]] = {
    "__matmul__": _matmul, "__rmatmul__": _rmatmul,
    "__add__": _binary(elementwise.add), "__radd__": _binary(elementwise.add, True),
    "__sub__": _binary(elementwise.subtract), "__rsub__": _binary(elementwise.subtract, True),
    "__mul__": _binary(elementwise.multiply), "__rmul__": _binary(elementwise.multiply, True),
    "__truediv__": _binary(lambda a, b: elementwise.divide(a, b, operator.truediv)),
    "__neg__": _unary(operator.neg, True), "__pos__": lambda self: self, "__abs__": _unary(abs),
    "__pow__": _power,
    "sum": _sum}
COMPARED = {f"__{n}__": _refused(n) for n in ("eq", "ne", "lt", "le", "gt", "ge")}
OF_BCOO: dict[str, Callable[..., Any]] = {
    "transpose": _transpose, "astype": _astype, "update_layout": bcoo_update_layout,
    "reshape": _reshape,
    "__getitem__": _of_dense(operator.getitem),
    "__iter__": lambda self: (self[i] for i in range(self.shape[0]))}


def attach() -> None:
    """Put the operators on the classes."""
    for kind in (BCOO, BCSR, COO, CSR, CSC):
        for name, f in OPERATORS.items():
            setattr(kind, name, f)
    for name, f in {**OF_BCOO, **COMPARED}.items():
        setattr(BCOO, name, f)
    for name in ("__getitem__", "reshape", "__iter__"):
        setattr(BCSR, name, OF_BCOO[name])


attach()
