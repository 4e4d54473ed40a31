"""Operators and methods of arrays: one table, installed on Array and on Tracer.

An operator with an unknown operand returns NotImplemented; lists, tuples, sets and dicts are
refused outright, as JAX does, so that `x == [1]` is no silent False.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from calque.array import Array
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.eager import fused
from calque.numpy import arithmetic as ar
from calque.numpy import arrange, convert, reductions, shapes, ufuncs, util
from calque.numpy import contract as ct
from calque.numpy.at import At
from calque.numpy.creation import array as make_array
from calque.numpy.indexing import take

Function = Callable[..., Any]


def _binary(symbol: str, f: Function, reflected: bool = False) -> Function:
    def method(self: Any, other: Any) -> Any:
        if not util.is_arraylike(other):
            if isinstance(other, (list, tuple, set, dict)):
                left, right = type(self).__name__, type(other).__name__
                if reflected:
                    left, right = right, left
                raise TypeError(explain(
                    f"unsupported operand type(s) for {symbol}: '{left}' and '{right}'",
                    fix="convert it with jnp.asarray."))
            return NotImplemented
        return f(other, self) if reflected else f(self, other)

    return method


_OPERATORS: dict[str, tuple[str, Function]] = {
    "add": ("+", ufuncs.add), "sub": ("-", ufuncs.subtract), "mul": ("*", ufuncs.multiply),
    "truediv": ("/", ufuncs.divide), "floordiv": ("//", ar.floor_divide),
    "mod": ("%", ar.remainder), "divmod": ("divmod", ar.divmod), "pow": ("**", ar.power),
    "matmul": ("@", ct.matmul), "and": ("&", ufuncs.bitwise_and), "or": ("|", ufuncs.bitwise_or),
    "xor": ("^", ufuncs.bitwise_xor), "lshift": ("<<", ufuncs.left_shift),
    "rshift": (">>", ufuncs.right_shift)}
_COMPARISONS: dict[str, tuple[str, Function]] = {
    "eq": ("==", ufuncs.equal), "ne": ("!=", ufuncs.not_equal), "lt": ("<", ufuncs.less),
    "le": ("<=", ufuncs.less_equal), "gt": (">", ufuncs.greater),
    "ge": (">=", ufuncs.greater_equal)}


# ---- operators with a body
def _round(self: Any, ndigits: int | None = None) -> Any:
    """round(x): whole numbers of an integer dtype; round(x, n): n decimals."""
    if ndigits is not None:
        return ar.round(self, ndigits)
    with fused("round"):
        made = ar.round(self, 0)
        return convert.astype(made, int)


def _getitem(self: Any, index: Any) -> Any:
    return take(self, index)


def _setitem(self: Any, index: Any, value: Any) -> None:
    raise TypeError(explain(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of "
        "x[idx] = y, use x = x.at[idx].set(y) or another .at[] method.",
        fix="x = x.at[idx].set(y)"))


def _iter(self: Any) -> Iterator[Any]:
    if not self.shape:
        raise TypeError(explain("iteration over a 0-d array"))
    return (take(self, i) for i in range(self.shape[0]))


def _reversed(self: Any) -> Iterator[Any]:
    if not self.shape:
        raise TypeError(explain("iteration over a 0-d array"))
    return (take(self, i) for i in reversed(range(self.shape[0])))


# ---- methods whose signature differs from the function's
def _reshape(self: Any, *args: Any, order: str = "C", copy: bool | None = None,
             out_sharding: Any = None) -> Any:
    """The elements in another shape, given as one tuple or as sizes."""
    sizes = args[0] if len(args) == 1 else args
    return shapes.reshape(self, sizes, order, copy=copy, out_sharding=out_sharding)


def _transpose(self: Any, *args: Any) -> Any:
    """The axes in another order, given as one tuple or one by one; reversed by default."""
    if not args or args == (None,):
        return shapes.transpose(self)
    axes = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    return shapes.transpose(self, axes)


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype."""
    return convert.astype(self, dtype, copy=copy, device=device)


def _copy(self: Any) -> Any:
    """A copy."""
    return make_array(self, copy=True)


def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """Values limited to [min, max]."""
    return ar.clip(self, min, max)


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements in one axis."""
    return shapes.ravel(self, order, out_sharding=out_sharding)


METHODS: dict[str, Any] = {
    "__neg__": lambda self: ufuncs.negative(self), "__pos__": lambda self: ar.positive(self),
    "__abs__": lambda self: ar.absolute(self), "__invert__": lambda self: ufuncs.invert(self),
    "__round__": _round, "__getitem__": _getitem, "__setitem__": _setitem, "__iter__": _iter,
    "__reversed__": _reversed,
    "T": property(lambda self: shapes.transpose(self), doc="The axes reversed."),
    "mT": property(lambda self: shapes.matrix_transpose(self), doc="The last two axes exchanged."),
    "real": property(lambda self: ar.real(self), doc="The real part."),
    "imag": property(lambda self: ar.imag(self), doc="The imaginary part."),
    "at": property(At, doc="Changed copies: x.at[index].set(v), .add(v), ..."),
    "astype": _astype, "copy": _copy, "clip": _clip, "flatten": _flatten, "reshape": _reshape,
    "transpose": _transpose, "view": convert.view, "ravel": shapes.ravel, "squeeze": shapes.squeeze,
    "swapaxes": shapes.swapaxes, "dot": ct.dot, "conj": ar.conj, "conjugate": ar.conj,
    "round": ar.round, "trace": arrange.trace, "diagonal": arrange.diagonal,
    **{name: getattr(reductions, name) for name in (
        "sum", "prod", "mean", "var", "std", "max", "min", "argmax", "argmin", "all", "any",
        "ptp")},
}


def _table() -> dict[str, Any]:
    table = dict(METHODS)
    for name, (symbol, f) in _OPERATORS.items():
        table[f"__{name}__"] = _binary(symbol, f)
        table[f"__r{name}__"] = _binary(symbol, f, reflected=True)
    for name, (symbol, f) in _COMPARISONS.items():
        table[f"__{name}__"] = _binary(symbol, f)
    return table


def install() -> None:
    """Give Array and Tracer their operators and methods."""
    for name, f in _table().items():
        for kind in (Array, Tracer):
            setattr(kind, name, f)


install()
