"""ufuncs: functions of scalars with the methods reduce, accumulate, at, outer and reduceat.

Functions of ufuncs.py and logic.py that have them are replaced by ufuncs here; `frompyfunc` makes
one of any Python function.  Start reading at `_Methods`.
"""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from calque.api.control import scan
from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.types import Function
from calque.lax.operands import canonical_axis
from calque.numpy import creation, cumulative, logic, picking, special, ufuncs, util
from calque.numpy import reductions as rd
from calque.numpy.apply import vectorize
from calque.numpy.logic import where as choose
from calque.numpy.shapes import broadcast_to, expand_dims, moveaxis, ravel, reshape
from calque.primitives import shape as sh


class _Methods:
    """The methods of one function; None stands for what the general form does."""

    def __init__(self, f: Function, name: str, nin: int, nout: int, identity: Any,
                 reduce: Function | None = None, accumulate: Function | None = None,
                 at: str | None = None, kind: Any = None, inexact: bool = False) -> None:
        self.f, self.name, self.nin, self.nout, self.identity = f, name, nin, nout, identity
        self.kind = kind  # the dtype its elements are taken as
        self.inexact = inexact  # integers are taken as floats
        self.own_reduce, self.own_accumulate, self.own_at = reduce, accumulate, at

    def _kind(self, x: Any) -> Any:
        """The dtype that elements of x are taken as; None: their own."""
        if self.inexact:
            dtype = util.to_inexact(dtype_of(x))
            return None if dtype == dtype_of(x) else dtype
        return self.kind

    def binary(self, method: str) -> None:
        if self.nin != 2:
            raise ValueError(explain(f"{method} only supported for binary ufuncs"))
        if self.nout != 1:
            raise ValueError(explain(
                f"{method} only supported for functions returning a single value"))

    # ---- along an axis
    def reduce(self, a: Any, axis: Any = 0, dtype: Any = None, out: None = None,
               keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
        """The elements along an axis (or axes; None: all) joined by the function, from the left.

        Args:
          a: array.
          axis: axis or axes.
          dtype: of the result.
          out: not supported.
          keepdims: keep the reduced axes with size 1.
          initial: what it starts from.
          where: bool array; only the elements where it holds count.

        Returns:
          An array without the axes.
        """
        self.binary("reduce")
        util.refuse_out(f"{self.name}.reduce", out)
        x = util.one_array(f"{self.name}.reduce", a)
        dtype = self._kind(x) if dtype is None else dtype
        if where is not None and self.identity is None and initial is None:
            raise ValueError(explain(
                f"reduction operation '{self.name}' does not have an identity, so to use a where "
                "mask one has to specify 'initial'.", fix="pass initial=."))
        if self.own_reduce is not None:
            made = self.own_reduce(x, axis=axis, keepdims=keepdims, initial=initial, where=where,
                                   **({"dtype": dtype} if dtype is not None and self.own_reduce
                                      in (rd.sum, rd.prod) else {}))
            return made if dtype is None else made.astype(dtype)
        with util.lazy_eval(f"{self.name}.reduce"):
            return self._fold(util.array(x), axis, dtype, keepdims, initial, where)

    def _fold(self, x: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any,
              where: Any) -> Any:
        if dtype is not None:
            x = x.astype(dtype)
        shape = shape_of(x)
        axes = util.axis_tuple(axis, len(shape))
        rest = without(shape, axes)
        count = math.prod(shape[i] for i in axes)

        def lined(v: Any) -> Any:
            return reshape(moveaxis(v, axes, tuple(range(len(axes)))), (count, *rest))

        rows = lined(x)
        mask = None if where is None else lined(broadcast_to(rd.where_mask(self.name, where),
                                                             shape))
        if initial is not None:
            start = broadcast_to(creation.asarray(initial, dtype_of(x)), rest)
        elif mask is not None or not count:
            if self.identity is None:
                raise ValueError(explain(f"zero-size array to reduction operation {self.name} "
                                         "which has no identity"))
            start = creation.full(rest, self.identity, dtype_of(x))
        else:
            start, rows = rows[0], rows[1:]

        def step(have: Any, row: Any) -> Any:
            value, keep = row
            made = self.f(have, value).astype(dtype_of(x))
            return (made if keep is None else choose(keep, made, have)), None

        out, _ = scan(step, start, (rows, mask))
        return rd.with_axes(out, shape, axes) if keepdims else out

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The intermediate results of reduce.

        Args:
          a: array.
          axis: the axis.
          dtype: of the result.
          out: not supported.

        Returns:
          An array of a's shape.
        """
        self.binary("accumulate")
        util.refuse_out(f"{self.name}.accumulate", out)
        x = util.one_array(f"{self.name}.accumulate", a)
        dtype = self._kind(x) if dtype is None else dtype
        rank = ndim_of(x)
        if axis is None or isinstance(axis, tuple):
            raise ValueError(explain("accumulate does not allow multiple axes"))
        axis = canonical_axis(axis, rank)
        if self.own_accumulate is not None:
            return self.own_accumulate(x, axis=axis, dtype=dtype)
        with util.lazy_eval(f"{self.name}.accumulate"):
            rows = moveaxis(util.array(x) if dtype is None else util.array(x).astype(dtype),
                            axis, 0)
            if not shape_of(rows)[0]:
                return moveaxis(rows, 0, axis)

            def step(have: Any, row: Any) -> Any:
                made = self.f(have, row).astype(dtype_of(rows))
                return made, made

            _, rest = scan(step, rows[0], rows[1:])
            joined = sh.concatenate([expand_dims(rows[0], 0), rest], 0)
            return moveaxis(joined, 0, axis)

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None,
                 out: None = None) -> Any:
        """reduce of the pieces between indices; where one is no larger than the one before, the
        element itself.

        Args:
          a: array.
          indices: int vector.
          axis: the axis.
          dtype: of the result.
          out: not supported.

        Returns:
          An array with len(indices) elements along the axis.
        """
        self.binary("reduceat")
        util.refuse_out(f"{self.name}.reduceat", out)
        x, indices = util.check_arrays(f"{self.name}.reduceat", a, indices)
        if axis is None or isinstance(axis, tuple):
            raise ValueError(explain("reduceat requires a single integer axis."))
        axis = canonical_axis(axis, ndim_of(x))
        if dtype_of(indices) == dtypes.bool_:
            indices = util.cast(indices, dtypes.int32)
        if ndim_of(indices) != 1:
            raise ValueError(explain(f"{self.name}.reduceat: indices must be a vector."))
        with util.lazy_eval(f"{self.name}.reduceat"):
            rows = moveaxis(util.array(x) if dtype is None else util.array(x).astype(dtype),
                            axis, 0)
            count = shape_of(rows)[0]
            first = util.array(indices)
            ends = sh.concatenate([first[1:], creation.full((1,), count, dtype_of(first))], 0)
            start = picking.take(rows, first, axis=0)
            made = dtype_of(self.f(start, start))
            if made.kind in "fc" and not dtypes.is_inexact(dtype_of(start)):
                raise TypeError(explain(
                    f"{self.name}.reduceat: of {dtype_of(start).name} elements it makes "
                    f"{made.name}.", fix="convert them to a float dtype first."))
            lead = (slice(None), *[None] * (ndim_of(rows) - 1))

            def step(have: Any, place: Any) -> Any:
                row, k = place
                made = self.f(have, row).astype(dtype_of(rows))
                return choose(((first < k) & (k < ends))[lead], made, have), None

            places = np.arange(count).astype(dtype_of(first))
            out = moveaxis(scan(step, start, (rows, places))[0], 0, axis)
            return util.cast(out, dtype_of(out), util.weak_of(x) and dtype is None)

    # ---- others
    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """a with the function applied at indices, again for an index that comes again.

        Args:
          a: array.
          indices: what a[...] takes.
          b: second operand, broadcast to a[indices].
          inplace: must be False: arrays are immutable.

        Returns:
          A changed copy of a.
        """
        if inplace:
            raise NotImplementedError(explain(
                "Because JAX arrays are immutable, jnp.ufunc.at() cannot operate inplace like "
                "np.ufunc.at(). Instead, you can pass inplace=False and capture the result.",
                fix=f"x = jnp.{self.name}.at(x, indices, ..., inplace=False)"))
        if self.nout != 1:
            raise ValueError(explain("ufunc.at() only supports functions with a single output"))
        if (b is None) != (self.nin == 1):
            raise ValueError(explain(
                "second operand needed for ufunc" if self.nin == 2 else
                "second operand provided when ufunc is not binary"))
        x = util.one_array(f"{self.name}.at", a)
        x = util.array(x)
        if self.own_at in ("max", "min"):  # of the dtype that both promote to
            b = util.one_array(f"{self.name}.at", b)
            x = util.cast(x, util.joined((x, b))[0])
        if self.own_at is not None:
            return getattr(x.at[indices], self.own_at)(b)
        with util.lazy_eval(f"{self.name}.at"):
            return self._one_by_one(x, indices, b)

    def _one_by_one(self, x: Any, indices: Any, b: Any) -> Any:
        size = math.prod(shape_of(x))
        places = ravel(reshape(np.arange(size, dtype=np.int32), shape_of(x))[
            indices] if isinstance(indices, slice) else creation.asarray(
                np.arange(size, dtype=np.int32).reshape(shape_of(x)))[indices])
        values = places
        if b is not None:
            b = util.one_array(f"{self.name}.at", b)
            values = ravel(broadcast_to(util.array(b), shape_of(util.array(x)[indices])))
        made = self.f(ravel(x)[:0]) if b is None else self.f(ravel(x)[:0], values[:0])
        x = util.cast(x, dtype_of(made))

        def step(flat: Any, row: Any) -> Any:
            place, value = row
            made = self.f(flat[place]) if b is None else self.f(flat[place], value)
            return flat.at[place].set(made.astype(dtype_of(x))), None

        return reshape(scan(step, ravel(x), (places, values))[0], shape_of(x))

    def outer(self, A: Any, B: Any, /) -> Any:  # noqa: N803 (NumPy's names)
        """The function of every element of A with every element of B.

        Args:
          A: array.
          B: array.

        Returns:
          An array of shape A.shape + B.shape.
        """
        if self.nin != 2:
            raise ValueError(explain("outer only supported for binary ufuncs"))
        x, y = util.check_arrays(f"{self.name}.outer", A, B)
        with util.lazy_eval(f"{self.name}.outer"):
            m, n = shape_of(x), shape_of(y)
            return self.f(reshape(util.array(x), (*m, *[1] * len(n))), util.array(y))


_NAMES = ("reduce", "accumulate", "reduceat", "at", "outer")


class ufunc(functools.partial):  # type: ignore[type-arg]  # noqa: N801 (NumPy's name)
    """A function of scalars, applied elementwise with broadcasting, and its methods.

    Made by frompyfunc; jnp.add, jnp.maximum, ... are of this class.  Its attributes cannot be set.

    Example:
      >>> import calque.numpy as jnp
      >>> f = jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
      >>> f(jnp.array([1, 2]), 3)
      Array([4, 7], dtype=int32)
      >>> f.reduce(jnp.array([1, 2, 3]))
      Array(10, dtype=int32)
      >>> jnp.add.accumulate(jnp.array([1, 2, 3]))
      Array([1, 3, 6], dtype=int32)
    """

    # a partial of nothing: calls go to the function without a frame between

    __name__: str
    _func: Function
    nin: int
    nout: int
    nargs: int
    identity: Any

    def __new__(cls, func: Function, /, nin: int, nout: int, *, name: str | None = None,
                nargs: int | None = None, identity: Any = None) -> ufunc:
        name = name or func.__name__
        function = vectorize(func)

        def call(*args: Any, out: None = None, where: None = None) -> Any:
            special._no_keywords(name, out, where)
            if len(args) != nin:
                raise TypeError(explain(f"{name} takes {nin} arguments, got {len(args)}."))
            return function(*args)

        return cls._made(call, func, _Methods(function, name, nin, nout, identity), nargs)

    @classmethod
    def _made(cls, call: Function, func: Function, methods: _Methods,
              nargs: int | None = None) -> ufunc:
        self = super().__new__(cls, call)
        self.__dict__.update(
            __name__=methods.name, __qualname__=methods.name, __module__=func.__module__,
            __doc__=func.__doc__, __wrapped__=func, _func=func, nin=methods.nin,
            nout=methods.nout, nargs=nargs or methods.nin, identity=methods.identity,
            **{m: getattr(methods, m) for m in _NAMES})
        return self

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__module__":  # what it says under `import jax`
            super().__setattr__(name, value)
            return
        raise AttributeError(f"{self!r}: {name} cannot be set.")

    def __reduce__(self) -> Any:  # by name, as functions are
        return self.__name__ if self.func is self._func else (
            _unpickled, (self._func, self.nin, self.nout, self.__name__, self.nargs,
                         self.identity))

    def _key(self) -> tuple[Any, ...]:
        return self._func, self.__name__, self.nin, self.nout, self.identity

    def __eq__(self, other: object) -> bool:
        return type(other) is ufunc and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _unpickled(func: Function, nin: int, nout: int, name: str, nargs: int, identity: Any) -> ufunc:
    return ufunc(func, nin, nout, name=name, nargs=nargs, identity=identity)


def frompyfunc(func: Function, /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a Python function of scalars.

    Args:
      func: function of nin scalars that returns nout of them (a tuple for more than one).
      nin: number of arguments.
      nout: number of results.
      identity: what reductions of nothing give.

    Returns:
      A ufunc.

    Raises:
      TypeError: when called, an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.frompyfunc(lambda x: x + 1, 1, 1)(jnp.arange(3))
      Array([1, 2, 3], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


def _of(f: Function, nin: int, identity: Any = None, **own: Any) -> ufunc:
    """The ufunc of a function of arrays."""
    return ufunc._made(f, f, _Methods(f, f.__name__, nin, 1, identity, **own))


add = _of(ufuncs.add, 2, 0, reduce=rd.sum, accumulate=cumulative.cumsum, at="add")
multiply = _of(ufuncs.multiply, 2, 1, reduce=rd.prod, accumulate=cumulative.cumprod, at="multiply")
subtract = _of(ufuncs.subtract, 2, at="subtract")
maximum = _of(ufuncs.maximum, 2, reduce=rd.max, at="max")
minimum = _of(ufuncs.minimum, 2, reduce=rd.min, at="min")
bitwise_and = _of(ufuncs.bitwise_and, 2, -1)
bitwise_or = _of(ufuncs.bitwise_or, 2, 0)
bitwise_xor = _of(ufuncs.bitwise_xor, 2, 0)
logical_and = _of(logic.logical_and, 2, True, kind=np.bool_)
logical_or = _of(logic.logical_or, 2, False, kind=np.bool_)
logical_xor = _of(logic.logical_xor, 2, False, kind=np.bool_)
logaddexp = _of(special.logaddexp, 2, -np.inf, inexact=True)
logaddexp2 = _of(special.logaddexp2, 2, -np.inf, inexact=True)
negative = _of(ufuncs.negative, 1)

__all__ = ["add", "bitwise_and", "bitwise_or", "bitwise_xor", "frompyfunc", "logaddexp",
           "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum", "minimum",
           "multiply", "negative", "subtract", "ufunc"]
