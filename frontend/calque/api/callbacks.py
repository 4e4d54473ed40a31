"""Python functions called from inside programs: pure_callback, io_callback, debug callbacks.

`HostFunction` turns a user's function of trees of arrays into one of NumPy arrays, which is what
the primitives hold; eager values call it at once.  Start reading at `pure_callback`.
"""
from __future__ import annotations

import functools
import logging
import re
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes, source
from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.lists import flagged
from calque.core.naming import name_of, wraps
from calque.core.refs import Ref, read
from calque.core.trace import as_current
from calque.core.trace import eval_trace as bottom_trace
from calque.core.types import Function
from calque.dispatch.array import from_numpy
from calque.dispatch.tracing import check_arguments
from calque.primitives import callback as prim
from calque.primitives.elementwise import stop_gradient_p
from calque.primitives.random import impl_of, random_unwrap_p, random_wrap_p
from calque.trees import util as tree_util

METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")

logger = "calque.debug"  # which `log` writes to,
failures = "calque.callbacks"  # and which failures of callbacks are


class HostFunction:
    """callback(*args, **kwargs) on NumPy leaves; results are checked against what was promised."""

    __slots__ = ("api", "callback", "in_tree", "out_tree", "avals", "batched")

    def __init__(self, api: str, callback: Function, in_tree: Any, out_tree: Any,
                 avals: Sequence[ShapedArray], batched: bool = False) -> None:
        self.api = api  # the public function that the user called
        self.callback, self.in_tree, self.out_tree = callback, in_tree, out_tree
        self.avals, self.batched = avals, batched

    def __repr__(self) -> str:
        return name_of(self.callback)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        with as_current(bottom_trace):
            args, kwargs = self.in_tree.unflatten([from_numpy(x) for x in leaves])
            try:
                out = self.callback(*args, **kwargs)
            except BaseException:  # the caller may have gone on: it learns of it at a barrier
                logging.getLogger(failures).exception("jax.%s failed", self.api)
                raise
        if self.out_tree is None:
            return []
        outs, tree = tree_util.flatten(out)
        if tree.num_leaves != self.out_tree.num_leaves:
            raise RuntimeError(explain(
                f"{self!r} was to return the structure {self.out_tree} and returned {tree}.",
                fix="return what result_shape_dtypes says."))
        made = [np.asarray(o) for o in outs]
        lead = 1 if self.batched else 0
        for o, a in zip(made, self.avals):
            if o.dtype != a.dtype and not np.can_cast(o.dtype, a.dtype, "same_kind") or (
                    o.shape[o.ndim - len(a.shape):] != a.shape or o.ndim - len(a.shape) > 8 * lead
                    and o.shape != a.shape):
                raise RuntimeError(explain(
                    f"{self!r} was to return {a.short()} and returned {o.dtype}{list(o.shape)}.",
                    fix="return arrays of the shapes and dtypes in result_shape_dtypes."))
        return [o.astype(a.dtype) for o, a in zip(made, self.avals)]


def _promised(name: str, spec: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = tree_util.flatten(spec)
    avals = promised_avals(name, leaves)
    for leaf, aval in zip(leaves, avals):
        if aval.dtype != leaf.dtype and leaf.dtype != dtypes.float0:
            raise ValueError(explain(
                "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is "
                f"disabled: {name} promises {np.dtype(leaf.dtype)}.",
                fix=f"promise {aval.dtype}, or set jax_enable_x64."))
    return avals, tree


def promised_avals(name: str, leaves: Sequence[Any]) -> tuple[ShapedArray, ...]:
    """The types of results that a caller describes."""
    for leaf in leaves:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise TypeError(explain(
                f"{name}: result_shape_dtypes must hold objects with shape and dtype, got "
                f"{type(leaf).__name__}.", fix="use calque.ShapeDtypeStruct(shape, dtype)."))
    return tuple(ShapedArray(tuple(x.shape), dtypes.canonical(np.dtype(x.dtype)))
                 for x in leaves)


def pure_callback(callback: Function, result_shape_dtypes: Any, *args: Any,
                  sharding: Any = None, vmap_method: str | None = None, **kwargs: Any) -> Any:
    """Call a function of the host that has no side effects.

    Args:
      callback: function of arrays (or trees of them); gets the values of args and kwargs.
      result_shape_dtypes: tree of objects with shape and dtype: what callback returns.
      *args: arrays, numbers or trees of them.
      vmap_method: under vmap: 'sequential' (also 'sequential_unrolled') calls once per element,
        'expand_dims' and 'broadcast_all' once with leading axes (of size 1, or repeated, where not
        mapped).

    Returns:
      The tree of result_shape_dtypes.  A call whose result is not used may be left out.

    Raises:
      TypeError: result_shape_dtypes has something without shape and dtype.
      ValueError: an unknown vmap_method; the call is differentiated.
      NotImplementedError: vmap without a vmap_method.

    Example:
      >>> import calque, calque.numpy as jnp, numpy as np
      >>> @calque.jit
      ... def f(x):
      ...     return calque.pure_callback(np.sort, calque.ShapeDtypeStruct(x.shape, x.dtype), x) + 1
      >>> f(jnp.array([3.0, 1.0, 2.0]))
      Array([2., 3., 4.], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in METHODS:
        raise ValueError(explain(
            f"vmap_method must be on of the allowed methods {METHODS}, got {vmap_method!r}."))
    avals, out_tree = _promised("pure_callback", result_shape_dtypes)
    leaves, in_tree = tree_util.flatten((args, kwargs))
    check_arguments("pure_callback", leaves, in_tree)
    host = HostFunction("pure_callback", callback, in_tree, out_tree, avals,
                        vmap_method not in (None, "sequential", "sequential_unrolled"))
    outs = prim.pure_callback_p.bind(*leaves, callback=host, result_avals=avals,
                                     vmap_method=vmap_method)
    return out_tree.unflatten(outs)


def io_callback(callback: Function, result_shape_dtypes: Any, *args: Any,
                sharding: Any = None, ordered: bool = False, **kwargs: Any) -> Any:
    """Call a function of the host that may have side effects: it runs as often as the program says.

    Args:
      callback: function of arrays (or trees of them).
      result_shape_dtypes: tree of objects with shape and dtype, or None for no result.
      *args: arrays, numbers or trees of them.
      ordered: forbid vmap, which has no order (calls keep the program's order in any case).

    Returns:
      The tree of result_shape_dtypes.

    Raises:
      TypeError: result_shape_dtypes has something without shape and dtype.
      ValueError: an ordered call under vmap; the call is differentiated.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import io_callback
      >>> seen = []
      >>> calque.jit(lambda x: io_callback(seen.append, None, x))(3)
      >>> seen
      [Array(3, dtype=int32)]
    """
    avals, out_tree = _promised("io_callback", result_shape_dtypes)
    leaves, in_tree = tree_util.flatten((args, kwargs))
    check_arguments("io_callback", leaves, in_tree)
    host = HostFunction("io_callback", callback, in_tree, out_tree, avals)
    outs = prim.io_callback_p.bind(*leaves, callback=host, result_avals=avals, ordered=ordered)
    return out_tree.unflatten(outs)


def callback(callback: Callable[..., None] | None = None, *args: Any,  # noqa: A002
             ordered: bool = False, partitioned: bool = False, **kwargs: Any) -> Any:
    """Call a function of the host for its side effects while a program runs.

    Args:
      callback: function of the values of args and kwargs; what it returns is ignored.  None: the
        options alone are given, and what is returned takes the function and its arguments, of
        which any may be called `ordered` then: callback(ordered=True)(f, x).
      ordered: accepted; calls keep the program's order.
      partitioned: a call for each device, with its parts of the values; else one, with the whole.

    Returns:
      None, or a function.

    Raises:
      TypeError: callback cannot be called.

    Example:
      >>> import calque
      >>> seen = []
      >>> calque.jit(lambda x: calque.debug.callback(lambda v: seen.append(int(v)), x * 2))(3)
      >>> seen
      [6]
    """
    if callback is None:
        _refuse_early("debug_callback", args, kwargs)
        return functools.partial(_call_back, ordered, partitioned)
    _call_back(ordered, partitioned, callback, *args, **kwargs)
    return None


def _refuse_early(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if args or kwargs:
        raise TypeError(explain(
            f"{name} received unexpected arguments in the two-call form: args={tuple(args)} "
            f"kwargs={kwargs}", fix="give options alone first, then the rest: "
            'debug.print(ordered=True)("{x}", x=x).'))


def _call_back(ordered: bool, partitioned: bool, callback: Any, /, *args: Any,
               **kwargs: Any) -> None:
    if not callable(callback):
        raise TypeError(explain(
            "first argument to debug.callback must be callable, but got an object of type "
            f"{type(callback)}.", fix="pass the function first, then its arguments."))
    leaves, in_tree = tree_util.flatten((args, kwargs))
    leaves = [read(x) if isinstance(x, Ref) else x for x in leaves]
    where = [_is_array(x) for x in leaves]
    found = flagged(leaves, where)
    for x in found:
        dtypes.check_fits(x)
    keys = [aval_of(x).dtype if dtypes.is_key(aval_of(x).dtype) else None for x in found]
    arrays = [x if k is None else random_unwrap_p.bind(x) for x, k in zip(found, keys)]

    @wraps(callback)
    def with_statics(*values: Any) -> None:
        given = iter(v if k is None else random_wrap_p.bind(v, **impl_of(k))
                     for v, k in zip(values, keys))
        every = [next(given) if a else x for a, x in zip(where, leaves)]
        a, k = in_tree.unflatten(every)
        callback(*a, **k)

    statics_tree = tree_util.flatten((tuple(arrays), {}))[1]
    host = HostFunction("debug.callback", with_statics, statics_tree, None, ())
    prim.debug_callback_p.bind(*arrays, callback=host, result_avals=(), ordered=ordered,
                               partitioned=partitioned)


def passed_through(name: str, function: Callable[..., None], token: Any,
                   operands: Sequence[Any]) -> Any:
    """A tree of arrays as it is, behind a call of function(*operands) that is made once its values
    are there, and only where they are used."""
    leaves, tree = tree_util.flatten(token)
    check_arguments(name, leaves, tree_util.flatten(((token,), {}))[1])
    leaves = [_constant(x) for x in leaves]
    avals = tuple(aval_of(x) for x in leaves)

    def call(*values: Any) -> list[Any]:
        function(*values[len(leaves):])
        return list(values[:len(leaves)])

    every = [*leaves, *map(_constant, operands)]
    outs_tree = tree_util.flatten(list(leaves))[1]
    host = HostFunction(name, call, tree_util.flatten((tuple(every), {}))[1], outs_tree, avals)
    return tree.unflatten(prim.pure_callback_p.bind(*every, callback=host, result_avals=avals,
                                                    vmap_method="sequential"))


def _constant(x: Any) -> Any:
    """The same for derivatives a constant."""
    aval = aval_of(x)
    return stop_gradient_p.bind(x) if dtypes.is_inexact(aval.dtype) else x


def _is_array(x: Any) -> bool:
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def print(fmt: str | None = None, *args: Any, ordered: bool = False,  # noqa: A001
          partitioned: bool = False, skip_format_check: bool = False, **kwargs: Any) -> Any:
    """Print values while a program runs: fmt.format(*args, **kwargs).

    Args:
      fmt: a format string, as for str.format; None: the options alone are given, and what is
        returned takes it and its arguments: print(ordered=True)("x = {x}", x=x).
      *args, **kwargs: arrays (traced or not) and other values for its fields.
      ordered: accepted; lines keep the program's order.
      partitioned: a call for each device, with its parts of the values; else one, with the whole.
      skip_format_check: find fields that are not given when the program runs, not before.

    Returns:
      None, or a function.

    Raises:
      TypeError: fmt is no text.
      IndexError, KeyError: fmt names a field that is not given.

    Example:
      >>> import calque
      >>> @calque.jit
      ... def f(x):
      ...     calque.debug.print("x = {x}, twice {}", x * 2, x=x)
      ...     return x
      >>> f(3.0) * 2
      x = 3.0, twice 6.0
      Array(6., dtype=float32, weak_type=True)
    """
    return _formatted(_show, fmt, args, kwargs, (ordered, partitioned), skip_format_check)


def log(fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False,
        skip_format_check: bool = False, **kwargs: Any) -> Any:
    """The same by Python's logging: a record of level INFO, at the file and line of this call, of
    the logger 'calque.debug' (under `import jax` JAX's). It goes to the handlers that are there,
    whatever the logger's own level.

    Args:
      fmt: a format string, or None, as for `print`.
      *args, **kwargs: arrays (traced or not) and other values for its fields.
      ordered: accepted; lines keep the program's order.
      partitioned: a call for each device, with its parts of the values; else one, with the whole.
      skip_format_check: find fields that are not given when the program runs, not before.

    Returns:
      None, or a function.

    Raises:
      TypeError: fmt is no text.
      IndexError, KeyError: fmt names a field that is not given.

    Example:
      >>> import calque
      >>> calque.debug.log("x = {}", 3.0)  # shown where a handler takes INFO
    """
    owner, place = logging.getLogger(logger), source.here()

    def write(text: str) -> None:
        owner.handle(owner.makeRecord(owner.name, logging.INFO, place.file, place.line,
                                      text, (), None, place.function))

    return _formatted(write, fmt, args, kwargs, (ordered, partitioned), skip_format_check)


def _formatted(write: Callable[[str], None], fmt: Any, args: tuple[Any, ...],
               kwargs: dict[str, Any], options: tuple[bool, bool], unchecked: bool) -> Any:
    """A text with values in its fields, written while a program runs; without a text, what takes
    one."""
    if fmt is None:
        _refuse_early("debug_print", args, kwargs)
        return lambda fmt, /, *args, **kwargs: _formatted(write, fmt, args, kwargs, options,
                                                          unchecked)
    if not isinstance(fmt, str):
        raise TypeError(explain(
            f"debug.print and debug.log: the format must be a str, got {type(fmt).__name__}.",
            fix='give the value to a field: debug.print("{}", x).'))
    if not unchecked:
        _check_fields(fmt, args, kwargs)

    style = np.get_printoptions()

    def show(*args: Any, **kwargs: Any) -> None:
        with np.printoptions(**style):
            write(fmt.format(*map(_plain, args), **{k: _plain(v) for k, v in kwargs.items()}))

    _call_back(*options, show, *args, **kwargs)
    return None


def _show(text: str) -> None:
    import builtins
    builtins.print(text)


def _check_fields(fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Fields that are not given, and values without a field, are found now, not when the program
    runs."""
    count, named, numbered = 0, set(), set()
    for _, field, _, _ in string.Formatter().parse(fmt):
        if field is None:
            continue
        name = re.split(r"[.\[]", field)[0]
        if name == "" or name.isdigit():
            at = int(name) if name else count
            count += 1
            numbered.add(at)
            if at >= len(args):
                raise IndexError(explain(
                    f"debug.print: {fmt!r} asks for argument {at} and got {len(args)}."))
        elif name not in kwargs:
            raise KeyError(explain(f"debug.print: {fmt!r} asks for {name!r}.",
                                   fix=f"pass {name}=."))
        named.add(name)
    perhaps = "" if named else (
        ' You may be passing an f-string (i.e, `f"{x}"`) into `debug.print`: the text has no '
        "fields.")
    if rest := [k for k in kwargs if k not in named]:
        raise ValueError(explain(
            f"Unused keyword arguments to `jax.debug.print`: {rest}.{perhaps}",
            fix="name them in the text, or leave them out."))
    if unused := [x for i, x in enumerate(args) if i not in numbered]:
        raise ValueError(explain(
            f"Unused positional arguments to `jax.debug.print`: {unused}.{perhaps}",
            fix="give them fields {}, or leave them out."))


def _plain(x: Any) -> Any:
    return np.asarray(x) if hasattr(x, "aval") and not dtypes.is_key(x.aval.dtype) else x
