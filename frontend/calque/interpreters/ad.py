"""Rules of differentiation of client primitives.

A jvp rule is rule(primals, tangents, **params) -> (out, tangent out), where a tangent may be a
Zero.  A transpose rule is rule(cotangent, *operands, **params) -> cotangents, where linear operands
are UndefinedPrimals and None stands for no cotangent.  Start reading at `primitive_jvps`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core.client import transposing
from calque.core.primitive import Primitive, is_linear, registry
from calque.core.primitive import UndefinedPrimal as UndefinedPrimal
from calque.core.zeros import Zero, add_tangents, instantiate, is_zero, zeros
from calque.interpreters.tables import Table
from calque.transforms.jvp import JVPTrace, JVPTracer

Rule = Callable[..., Any]
primitive_jvps = Table("ad.primitive_jvps", "jvp", lambda rule: rule, lambda rule: rule)
primitive_transposes = Table("ad.primitive_transposes", "transpose", transposing, lambda rule: rule)
add_jaxvals_p = registry["add_any"]


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two cotangents.

    Args:
      x, y: arrays of one shape and dtype.

    Returns:
      Their sum.

    Raises:
      TypeError: shapes differ.

    Example:
      >>> from calque.interpreters import ad
      >>> print(ad.add_jaxvals(1.0, 2.0))
      3.0
    """
    return add_jaxvals_p.bind(x, y)


def is_undefined_primal(x: Any) -> bool:
    """Whether a transpose rule's operand is linear: only its type is known.

    Args:
      x: an operand.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> from calque.interpreters import ad
      >>> ad.is_undefined_primal(1.0)
      False
    """
    return is_linear(x)


def instantiate_zeros(tangent: Any) -> Any:
    """A tangent, or zeros for a Zero.

    Args:
      tangent: an array or a Zero.

    Returns:
      An array.

    Raises:
      Nothing.

    Example:
      >>> from calque.interpreters import ad
      >>> print(ad.instantiate_zeros(ad.Zero.from_primal_value(2.0)))
      0.0
    """
    return instantiate(tangent)


def zeros_like_aval(aval: Any) -> Any:
    """Zeros of a type.

    Args:
      aval: a ShapedArray.

    Returns:
      An array.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.interpreters import ad
      >>> print(ad.zeros_like_aval(calque.core.ShapedArray((2,), "float32")))
      [0. 0.]
    """
    return zeros(aval)


def get_primitive_transpose(p: Primitive) -> Rule:
    """The transpose rule of a primitive.

    Args:
      p: a Primitive.

    Returns:
      The rule.

    Raises:
      NotImplementedError: there is none.

    Example:
      >>> import calque
      >>> from calque.interpreters import ad
      >>> callable(ad.get_primitive_transpose(calque.lax.neg_p))
      True
    """
    p.rule("transpose")
    return primitive_transposes[p]


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """A primitive is linear in its operands: its tangent is itself.

    Args:
      primitive: of one result.
      transpose_rule: rule(cotangent, *operands, **params) -> cotangents.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import ad
      >>> ad.deflinear2(Primitive("same"), lambda ct, x: [ct])
    """
    def rule(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(is_zero(t) for t in tangents):
            none = [Zero.from_primal_value(o) for o in _listed(primitive, out)]
            return out, none if primitive.multiple_results else none[0]
        return out, primitive.bind(*map(instantiate, tangents), **params)

    primitive_jvps[primitive] = rule
    primitive_transposes[primitive] = transpose_rule


def _listed(primitive: Primitive, out: Any) -> list[Any]:
    return list(out) if primitive.multiple_results else [out]


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """deflinear2 with a rule of the cotangent alone.

    Args:
      primitive: of one result.
      transpose_rule: rule(cotangent, **params) -> cotangents.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import ad
      >>> ad.deflinear(Primitive("same"), lambda ct: [ct])
    """
    deflinear2(primitive, lambda ct, *_, **params: transpose_rule(ct, **params))


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """One rule for each operand: rule(tangent, *operands, **params), the tangents being added up.

    Args:
      primitive: of one result.
      *jvprules: a rule, or None for no derivative, by operand.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import ad
      >>> ad.defjvp(Primitive("square"), lambda t, x: 2 * x * t)
    """
    defjvp2(primitive, *[None if r is None else
                         (lambda t, out, *xs, _rule=r, **params: _rule(t, *xs, **params))
                         for r in jvprules])


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """defjvp with rules that are given the result, too: rule(tangent, out, *operands, **params).

    Args:
      primitive: of one result.
      *jvprules: a rule, or None for no derivative, by operand.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import ad
      >>> ad.defjvp2(Primitive("exponential"), lambda t, out, x: t * out)
    """
    def rule(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        total: Any = Zero.from_primal_value(out)
        for one, t in zip(jvprules, tangents):
            if one is not None and not is_zero(t):
                total = add_tangents(total, one(t, out, *primals, **params))
        return out, total
    primitive_jvps[primitive] = rule


def defbilinear(prim: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """A primitive is linear in each of its two operands.

    Args:
      prim: of one result.
      lhs_rule: rule(cotangent, first operand, second, **params) -> cotangent of the first.
      rhs_rule: the same of the second.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import ad
      >>> ad.defbilinear(Primitive("times"), lambda ct, x, y: ct * y, lambda ct, x, y: x * ct)
    """
    defjvp(prim, lambda t, x, y, **params: prim.bind(t, y, **params),
           lambda t, x, y, **params: prim.bind(x, t, **params))

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_linear(x):
            return (Zero(x.aval) if is_zero(ct) else lhs_rule(ct, x, y, **params)), None
        return None, (Zero(y.aval) if is_zero(ct) else rhs_rule(ct, x, y, **params))
    primitive_transposes[prim] = transpose


__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p",
    "add_tangents", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2",
    "get_primitive_transpose", "instantiate_zeros", "is_undefined_primal", "primitive_jvps",
    "primitive_transposes", "zeros_like_aval"]


def __dir__() -> list[str]:
    return __all__
