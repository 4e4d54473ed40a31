"""JAX's names and constructors of Programs: a Program is a Jaxpr and a ClosedJaxpr at once.

Start reading at `Jaxpr`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.evaluate import eval_jaxpr
from calque.core.lists import inserted, without
from calque.core.primitive import Primitive
from calque.core.program import Equation, Program, Var
from calque.core.source import UNKNOWN, here
from calque.core.types import Params


class _As(type):
    """A class whose instances are those of another one of ours."""

    ours: type

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, cls.ours)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.ours)


class DebugInfo(NamedTuple):
    """What a jaxpr was traced for, and the names of its arguments and results.

    Attributes:
      traced_for, func_src_info: strings; arg_names, result_paths: tuples of strings, or None.

    Example:
      >>> from calque import api_util
      >>> api_util.debug_info("jit", lambda x, y: x, (1, 2), {}).arg_names
      ('x', 'y')
    """

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None
    result_paths: Any = None

    def with_unknown_names(self) -> DebugInfo:
        """The same without names."""
        return self._replace(arg_names=None, result_paths=None)


class Effect:
    """A kind of effect that an operation has beside its results.

    Example:
      >>> from calque.extend.core import Effect
      >>> class Printing(Effect):
      ...     pass
      >>> Printing() == Printing()
      False
    """


Effects = frozenset
no_effects: frozenset[Any] = frozenset()


class Jaxpr(metaclass=_As):
    """A traced function: constvars and invars, equations, outvars.

    Args:
      constvars, invars: Vars; outvars: Vars and Literals; eqns: JaxprEqns.
      effects, debug_info: accepted; effects are those of the equations.

    Example:
      >>> import calque
      >>> from calque.extend.core import Jaxpr
      >>> jaxpr = calque.make_jaxpr(lambda x: x + 1)(2.0).jaxpr
      >>> isinstance(jaxpr, Jaxpr), len(jaxpr.eqns)
      (True, 1)
    """

    ours = Program

    def __new__(cls, constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Any],
                eqns: Sequence[Equation], effects: Any = no_effects, debug_info: Any = None,
                is_high: bool = False) -> Any:
        name = getattr(debug_info, "func_src_info", None) or "jaxpr"
        return _open(tuple(constvars), invars, eqns, outvars, name)


def _open(constvars: tuple[Var, ...], invars: Sequence[Var], eqns: Sequence[Equation],
          outvars: Sequence[Any], name: str) -> Program:
    """A Program whose consts have no values yet."""
    return Program(invars, eqns, outvars, constvars, (None,) * len(constvars), name)


class ClosedJaxpr(metaclass=_As):
    """A jaxpr with the values of its constvars.

    Args:
      jaxpr: a Jaxpr.
      consts: one value for each of its constvars.

    Raises:
      TypeError: their number is another.

    Example:
      >>> import calque
      >>> from calque.extend.core import ClosedJaxpr, jaxpr_as_fun
      >>> closed = calque.make_jaxpr(lambda x: x + 1)(2.0)
      >>> jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, closed.consts))(3.0)
      [Array(4., dtype=float32, weak_type=True)]
    """

    ours = Program

    def __new__(cls, jaxpr: Program, consts: Sequence[Any]) -> Any:
        consts = tuple(consts)
        if len(consts) != len(jaxpr.const_vars):
            raise TypeError(explain(
                f"ClosedJaxpr: the jaxpr has {len(jaxpr.const_vars)} constvars, got {len(consts)} "
                "values.", fix="give one value for each."))
        same = all(a is b for a, b in zip(consts, jaxpr.consts))
        return jaxpr if same else jaxpr.replace(consts=consts)


class JaxprEqn(metaclass=_As):
    """outvars = primitive[params](invars); made by new_jaxpr_eqn.

    Example:
      >>> import calque
      >>> from calque.extend.core import JaxprEqn
      >>> isinstance(calque.make_jaxpr(lambda x: x + 1)(2.0).eqns[0], JaxprEqn)
      True
    """

    ours = Equation

    def __new__(cls, invars: Sequence[Any], outvars: Sequence[Var], primitive: Primitive,
                params: Params, effects: Any = no_effects, source_info: Any = None,
                ctx: Any = None) -> Any:
        return new_jaxpr_eqn(invars, outvars, primitive, params, effects, source_info, ctx)


class DropVar(Var):
    """A result that nobody reads.

    Example:
      >>> import calque
      >>> from calque.extend.core import DropVar
      >>> DropVar(calque.core.ShapedArray((), "float32")).aval.shape
      ()
    """

    __slots__ = ()


def new_jaxpr_eqn(invars: Sequence[Any], outvars: Sequence[Var], primitive: Primitive,
                  params: Params, effects: Any = no_effects, source_info: Any = None,
                  ctx: Any = None) -> Equation:
    """An equation.

    Args:
      invars: Vars and Literals that it reads; outvars: Vars that it makes.
      primitive: what it does, with these params.
      effects, ctx: accepted; the primitive knows its effects.
      source_info: its place in the user's program (of another equation).

    Returns:
      A JaxprEqn.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import new_jaxpr_eqn
      >>> eqn = calque.make_jaxpr(lambda x: x + 1.0)(2.0).eqns[0]
      >>> new_jaxpr_eqn(eqn.invars, eqn.outvars, calque.lax.mul_p, {}).primitive
      mul
    """
    source = here() if source_info is None else source_info
    return Equation(primitive, tuple(invars), tuple(outvars), dict(params),
                    source if hasattr(source, "file") else UNKNOWN)


def jaxpr_as_fun(closed_jaxpr: Program, *args: Any) -> Any:
    """A function that evaluates a closed jaxpr; its results, where arguments are given.

    Args:
      closed_jaxpr: from make_jaxpr.
      *args: one value for each of its invars.

    Returns:
      A list of results, or the function that returns it where no arguments are given and the jaxpr
      has some.

    Raises:
      TypeError: the number of values is wrong.

    Example:
      >>> import calque
      >>> from calque.extend.core import jaxpr_as_fun
      >>> jaxpr_as_fun(calque.make_jaxpr(lambda x: x + 1)(2.0))(3.0)
      [Array(4., dtype=float32, weak_type=True)]
    """
    def run(*values: Any) -> list[Any]:
        return eval_jaxpr(closed_jaxpr, closed_jaxpr.consts, *values)
    return run(*args) if args else run


def jaxprs_in_params(params: Params) -> Iterator[Program]:
    """The jaxprs among the parameters of an equation.

    Args:
      params: of an equation.

    Returns:
      An iterator.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import jaxprs_in_params
      >>> eqn = calque.make_jaxpr(calque.jit(lambda x: x + 1))(2.0).eqns[0]
      >>> len(list(jaxprs_in_params(eqn.params)))
      1
    """
    for value in params.values():
        for p in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(p, Program):
                yield p


def subjaxprs(jaxpr: Program) -> Iterator[Program]:
    """The jaxprs among the parameters of all equations of one.

    Args:
      jaxpr: a jaxpr.

    Returns:
      An iterator.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import subjaxprs
      >>> len(list(subjaxprs(calque.make_jaxpr(calque.jit(lambda x: x + 1))(2.0).jaxpr)))
      1
    """
    for e in jaxpr.equations:
        yield from jaxprs_in_params(e.params)


def gensym() -> Callable[[ShapedArray], Var]:
    """A function that makes a new variable of a type.

    Returns:
      A function of a ShapedArray.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import gensym
      >>> gensym()(calque.core.ShapedArray((2,), "int32")).aval
      ShapedArray(int32[2])
    """
    return Var


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one element of a batch.

    Args:
      size: of the batch; axis: along which it lies, None: not at all.
      aval: the batch's type.

    Returns:
      A ShapedArray with an axis less.

    Raises:
      ValueError: the axis has another size.

    Example:
      >>> import calque
      >>> from calque.extend.core import mapped_aval
      >>> mapped_aval(3, 0, calque.core.ShapedArray((3, 2), "float32"))
      ShapedArray(float32[2])
    """
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(explain(
            f"mapped_aval: axis {axis} of {aval.short()} has not {size} elements.",
            fix="pass the axis along which the batch lies."))
    return aval.of_shape(without(aval.shape, [axis % aval.ndim]))


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray,
                  explicit_mesh_axis: Any = None) -> ShapedArray:
    """The type of a batch of values.

    Args:
      size: of the batch; axis: along which it lies, None: not at all.
      aval: the type of one element.
      explicit_mesh_axis: accepted; None.

    Returns:
      A ShapedArray with an axis more.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.extend.core import unmapped_aval
      >>> unmapped_aval(3, 0, calque.core.ShapedArray((2,), "float32"))
      ShapedArray(float32[3,2])
    """
    if axis is None:
        return aval
    at = axis % (aval.ndim + 1)
    return aval.of_shape(inserted(aval.shape, at, size))
