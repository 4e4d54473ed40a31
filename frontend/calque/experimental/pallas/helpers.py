"""What kernels call, and the arithmetic of sizes around them."""
from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from calque import numpy
from calque.api import callbacks
from calque.api.control import cond
from calque.api.loops import fori_loop
from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.naming import wraps
from calque.core.refs import Ref
from calque.core.trace import axes_placed
from calque.core.types import Axes, Function, Shape
from calque.dispatch import costs
from calque.dispatch.staging import make_jaxpr
from calque.experimental.pallas.specs import CostEstimate, MemoryRef
from calque.extras.ref import ds as ds
from calque.extras.ref import freeze, new_ref
from calque.primitives.grid import unset
from calque.trees import util as tree_util

dslice = ds

# The grid and the place in it of the kernel that is traced.
_cell: contextvars.ContextVar[tuple[tuple[int, ...], Sequence[Any]] | None] = (
    contextvars.ContextVar("calque_pallas_cell", default=None))


@contextlib.contextmanager
def in_cell(grid: Shape, place: Sequence[Any], names: Sequence[Any] = ()) -> Iterator[None]:
    """What program_id and num_programs give inside the block, and axis_index of named axes."""
    token = _cell.set((grid, place))
    try:
        with axes_placed([(n, size, at) for n, size, at in zip(names, grid, place)
                          if n is not None]):
            yield
    finally:
        _cell.reset(token)


def _axis(name: str, axis: int) -> tuple[Axes, Sequence[Any]]:
    found = _cell.get()
    if found is None:
        raise AssertionError(explain(
            f"{name}({axis}) is called outside of a kernel.",
            fix="call it in a function that is given to pallas_call; an index map gets the place "
                "as its arguments."))
    if not -len(found[0]) <= axis < len(found[0]):
        raise ValueError(explain(
            f"{name}: Axis {axis} is out of bounds for grid {found[0]}",
            fix="name an axis of the grid, counted from 0."))
    return found


def program_id(axis: int) -> Any:
    """The place of the running cell along an axis of the grid.

    Args:
      axis: of the grid.

    Returns:
      An int32 scalar.

    Raises:
      AssertionError: no kernel is traced.
      ValueError: the grid has no such axis.

    Example:
      >>> import calque
      >>> from calque.experimental import pallas as pl
      >>> def kernel(o_ref):
      ...     o_ref[...] = pl.program_id(0)
      >>> pl.pallas_call(kernel, calque.ShapeDtypeStruct((3,), "int32"), grid=3,
      ...                out_specs=pl.BlockSpec((None,), lambda i: i))()
      Array([0, 1, 2], dtype=int32)
    """
    return _axis("program_id", axis)[1][axis]


def num_programs(axis: int) -> int:
    """The number of cells along an axis of the grid.

    Args:
      axis: of the grid.

    Returns:
      A Python int.

    Raises:
      AssertionError: no kernel is traced.
      ValueError: the grid has no such axis.

    Example:
      >>> import calque
      >>> from calque.experimental import pallas as pl
      >>> def kernel(o_ref):
      ...     o_ref[...] = pl.num_programs(0) - pl.program_id(0)
      >>> pl.pallas_call(kernel, calque.ShapeDtypeStruct((3,), "int32"), grid=3,
      ...                out_specs=pl.BlockSpec((None,), lambda i: i))()
      Array([3, 2, 1], dtype=int32)
    """
    return _axis("num_programs", axis)[0][axis]


def estimate_cost(fun: Function, *args: Any, **kwargs: Any) -> CostEstimate:
    """What a function costs, counted by its operations.

    Args:
      fun: function of arrays.
      *args, **kwargs: arrays, or objects with shape and dtype.

    Returns:
      A CostEstimate: an addition or product of one element is a flop, a function such as exp a
      transcendental; bytes are those of the arguments and results, each once.

    Raises:
      TypeError: an argument is no array.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> pl.estimate_cost(lambda x: jnp.exp(x) + 1, jnp.ones(8)).transcendentals
      8
    """
    found = costs.analysis(make_jaxpr(fun)(*args, **kwargs), fused=True)
    return CostEstimate(*(int(found[k]) for k in ("flops", "transcendentals", "bytes accessed")))


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """A decorator that calls the function at once, if the condition holds.

    Args:
      condition: a bool, or a traced boolean scalar.

    Returns:
      A decorator; what is decorated becomes None.

    Raises:
      TypeError: the condition is no scalar, or the function returns something.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> def kernel(x_ref, o_ref):
      ...     @pl.when(pl.program_id(0) == 0)
      ...     def start():
      ...         o_ref[...] = jnp.zeros_like(o_ref)
      ...     o_ref[...] += x_ref[...]
      >>> pl.pallas_call(kernel, calque.ShapeDtypeStruct((2,), "float32"), grid=3,
      ...     in_specs=[pl.BlockSpec((None, 2), lambda k: (k, 0))],
      ...     out_specs=pl.BlockSpec((2,), lambda k: 0))(jnp.ones((3, 2)))
      Array([3., 3.], dtype=float32)
    """
    def decorate(f: Callable[[], None]) -> None:
        if isinstance(condition, (bool, np.bool_)):
            if condition:
                f()
            return
        cond(condition, f, lambda: None)

    return decorate


def loop(lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1,
         unroll: int | bool | None = None) -> Callable[[Function], Any]:
    """A decorator that calls the function for i = lower, lower + step, ... before upper.

    Args:
      lower, upper, step: integer scalars.
      init_carry: what f(i, carry) gets and returns; None: f(i) returns nothing.
      unroll: steps to write out per loop step (known bounds only).

    Returns:
      A decorator; what is decorated becomes the last carry.

    Raises:
      TypeError: f changes the carry's structure or types.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> @pl.loop(0, 5, init_carry=0)
      ... def total(i, carry):
      ...     return carry + i
      >>> total
      Array(10, dtype=int32, weak_type=True)
    """
    def decorate(f: Function) -> Any:
        known = all(isinstance(n, (int, np.integer)) for n in (lower, upper, step))
        count = len(range(lower, upper, step)) if known else cdiv(upper - lower, step)

        def body(k: Any, carry: Any) -> Any:
            i = lower + k * step if not (known and lower == 0 and step == 1) else k
            return f(i) if init_carry is None else f(i, carry)

        return fori_loop(0, count, body, init_carry, unroll=unroll)

    return decorate


def run_scoped(f: Function, *types: Any, collective_axes: Any = (),
               **kw_types: Any) -> Any:
    """f(*references), each to an array of its own that is gone afterwards.

    Args:
      f: function of references, which may write to them and to others.
      *types: of the arrays: pl.ANY(shape, dtype).
      collective_axes: accepted.
      **kw_types: likewise, given by name.

    Returns:
      What f returns.

    Raises:
      TypeError: a type is no MemoryRef.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> def kernel(x_ref, o_ref):
      ...     def body(half_ref):
      ...         half_ref[...] = x_ref[...] / 2
      ...         o_ref[...] = half_ref[...] + half_ref[...][::-1]
      ...     pl.run_scoped(body, pl.ANY((2,), "float32"))
      >>> pl.pallas_call(kernel, calque.ShapeDtypeStruct((2,), "float32"))(jnp.array([1., 3.]))
      Array([2., 2.], dtype=float32)
    """
    refs = [tree_util.tree_map(_fresh, t) for t in types]
    return f(*refs, **{k: tree_util.tree_map(_fresh, t) for k, t in kw_types.items()})


def _fresh(kind: Any) -> Ref:
    check_scratch("run_scoped", kind)
    return new_ref(unset(ShapedArray(kind.shape, kind.dtype)))


def check_scratch(name: str, kind: Any) -> None:
    """TypeError where a scratch array has no type."""
    if not isinstance(kind, MemoryRef):
        raise TypeError(explain(
            f"{name}: the type of a scratch array must be a MemoryRef, got {kind!r} of type "
            f"{type(kind).__name__}.", fix="pass pl.ANY(shape, dtype)."))


def with_scoped(*types: Any, collective_axes: Any = (), **kw_types: Any
                ) -> Callable[[Function], Function]:
    """A decorator: the function's last arguments are references as run_scoped makes them.

    Args:
      *types, collective_axes, **kw_types: as of run_scoped.

    Returns:
      A decorator.

    Raises:
      TypeError: (when the function is called) a type is no MemoryRef.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> @pl.with_scoped(pl.ANY((), "int32"))
      ... def double(x, ref):
      ...     ref[...] = x
      ...     return ref[...] + x
      >>> double(pl.cdiv(7, 2) + pl.empty((), "int32"))
      Array(8, dtype=int32)
    """
    def decorate(f: Function) -> Function:
        @wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            return run_scoped(functools.partial(f, *args, **kwargs), *types,
                              collective_axes=collective_axes, **kw_types)
        return call

    return decorate


def run_state(f: Callable[..., None]) -> Callable[[Any], Any]:
    """A function of values from one of references: it returns what f leaves in them.

    Args:
      f: function of a tree of references.

    Returns:
      A function of a tree of arrays that returns such a tree.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> def first(ref):
      ...     ref[0] = 9
      >>> pl.run_state(first)(jnp.arange(3))
      Array([9, 1, 2], dtype=int32)
    """
    @wraps(f)
    def call(values: Any) -> Any:
        refs = tree_util.tree_map(new_ref, values)
        f(refs)
        return tree_util.tree_map(freeze, refs)

    return call


def debug_print(fmt: str, *args: Any) -> None:
    """Print values from inside a kernel, once per cell.

    Args:
      fmt: a format text for str.format.
      *args: arrays.

    Returns:
      Nothing.

    Raises:
      As calque.debug.print.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.debug_print("x = {}", 3)
      x = 3
    """
    callbacks.print(fmt, *args)


# ---- sizes
def cdiv(a: Any, b: Any) -> Any:
    """a / b, rounded up.

    Args:
      a, b: integers.

    Returns:
      An int, or an integer scalar where one is traced.

    Raises:
      ZeroDivisionError: b is a Python int and 0.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.cdiv(9, 2)
      5
    """
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else (a + b - 1) // b


def align_to(a: Any, alignment: Any) -> Any:
    """a, rounded up to a multiple of alignment.

    Args:
      a, alignment: integers.

    Returns:
      An int, or an integer scalar where one is traced.

    Raises:
      ZeroDivisionError: alignment is a Python int and 0.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.align_to(5, 4)
      8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is not below x.

    Args:
      x: an int >= 0.

    Returns:
      An int.

    Raises:
      ValueError: x is negative.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> [pl.next_power_of_2(n) for n in (0, 1, 5)]
      [1, 1, 8]
    """
    if x < 0:
        raise ValueError(explain(
            f"`next_power_of_2` requires a non-negative integer., got {x}.", fix="pass a size."))
    return 1 << max(int(x) - 1, 0).bit_length()


def strides_from_shape(shape: Sequence[int]) -> Shape:
    """Elements from one position of an axis to the next, in a dense array.

    Args:
      shape: sizes of the axes.

    Returns:
      One int for each.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.strides_from_shape((2, 3, 4))
      (12, 4, 1)
    """
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(found[::-1])


def multiple_of(x: Any, values: Sequence[int] | int) -> Any:
    """x, of which the caller says that it is a multiple of these; nothing is made of it here.

    Args:
      x: integer scalar.
      values: divisors of it.

    Returns:
      x.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.multiple_of(8, 4)
      8
    """
    return x


# ---- arrays
def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """1 / x.

    Args:
      x: array of floats.
      approx, full_range: accepted: the result is exact to rounding.

    Returns:
      An array of x's shape and dtype.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> pl.reciprocal(jnp.array([2., 4.]))
      Array([0.5 , 0.25], dtype=float32)
    """
    return 1 / x


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """a, repeated along new leading axes and along those of size 1.

    Args:
      a: array.
      shape: of the result.

    Returns:
      An array.

    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> pl.broadcast_to(jnp.arange(2), (2, 2))
      Array([[0, 1],
             [0, 1]], dtype=int32)
    """
    return numpy.broadcast_to(a, tuple(shape))


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array that nobody has set; zeros, as JAX's is where Pallas is interpreted.

    Args:
      shape: sizes of its axes.
      dtype: of its elements.
      out_sharding: where it lies.

    Returns:
      An array.

    Raises:
      As calque.numpy.zeros.

    Example:
      >>> from calque.experimental import pallas as pl
      >>> pl.empty((2,), "float32").shape
      (2,)
    """
    return numpy.zeros(tuple(shape), dtype, out_sharding=out_sharding)


def empty_like(x: Any) -> Any:
    """Arrays that nobody has set (zeros), of the shapes and dtypes of a tree.

    Args:
      x: a tree of what has a shape and a dtype.

    Returns:
      A tree of arrays.

    Raises:
      AttributeError: a leaf has no shape or dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> pl.empty_like(jnp.ones(2)).shape
      (2,)
    """
    return tree_util.tree_map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def empty_ref_like(x: Any) -> Any:
    """References to arrays that nobody has set (zeros), of the shapes and dtypes of a tree.

    Args:
      x: a tree of what has a shape and a dtype.

    Returns:
      A tree of references.

    Raises:
      AttributeError: a leaf has no shape or dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import pallas as pl
      >>> pl.empty_ref_like(jnp.ones(2)).shape
      (2,)
    """
    return tree_util.tree_map(lambda leaf: new_ref(empty(leaf.shape, leaf.dtype)), x)
