"""Functions with rules of their own: custom_jvp, custom_vjp, custom_gradient, closure_convert.

A function of trees becomes one of flat values here; primitives/custom.py says what transformations
do with it.  Start reading at `custom_jvp.__call__`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from calque.api.rule_arguments import HandsOn, positions, resolved
from calque.api.rule_results import cotangent_error, primal_error
from calque.core import dtypes
from calque.core.avals import (
    ShapedArray,
    aval_of,
    dtype_of,
    is_arraylike,
    same_axes,
    same_type,
)
from calque.core.config import config
from calque.core.errors import UnexpectedTracerError, explain
from calque.core.lists import as_tuple, flagged
from calque.core.naming import dress, name_of
from calque.core.numbers import typed
from calque.core.refs import Ref, bound_to_rules, check_distinct
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.core.zeros import instantiate, is_zero, zero_like
from calque.dispatch.tracing import check_arguments, check_outputs, name_at, traced_among
from calque.primitives.custom import (
    Rule,
    SymbolicZero,
    custom_jvp_p,
    custom_vjp_p,
)
from calque.primitives.custom import custom_jvp_p as custom_jvp_call_p
from calque.primitives.custom import custom_vjp_p as custom_vjp_call_p
from calque.primitives.elementwise import add, convert_element_type_p
from calque.transforms.stage import replay, stage
from calque.trees import util as tree_util


class CustomVJPPrimal:
    """An argument of a forward rule with symbolic_zeros=True.

    Attributes:
      value: the argument.
      perturbed: whether it is differentiated.

    Example:
      >>> from calque.custom_derivatives import CustomVJPPrimal
      >>> CustomVJPPrimal(1.0, True).perturbed
      True
    """

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def _split(args: Sequence[Any], fixed: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """(arguments that are differentiated, the others)."""
    count = len(args)
    places = {i % count if count else i for i in fixed}
    return ([a for i, a in enumerate(args) if i not in places],
            [a for i, a in enumerate(args) if i in places])


def _whole(given: Sequence[Any], others: Sequence[Any], fixed: Sequence[int]) -> list[Any]:
    count, rest, held = len(given) + len(others), iter(given), iter(others)
    places = {i % count if count else i for i in fixed}
    return [next(held) if i in places else next(rest) for i in range(count)]


def flat_result(name: str, out: Any) -> tuple[list[Any], Any]:
    leaves, tree = tree_util.flatten(out)
    check_outputs(name, leaves, tree)
    return leaves, tree


class _WithRefs:
    """A structure whose leaves are partly references: what is put into it are the others."""

    def __init__(self, tree: Any, leaves: Sequence[Any]) -> None:
        self.tree, self.leaves = tree, leaves

    def unflatten(self, values: Sequence[Any]) -> Any:
        given = iter(values)
        return self.tree.unflatten([x if type(x) is Ref else next(given) for x in self.leaves])

    def without(self, values: Sequence[Any]) -> list[Any]:
        """One of as many values as leaves for each that is no reference."""
        return [v for v, x in zip(values, self.leaves) if type(x) is not Ref]


def _flatten(name: str, fun: Function, args: tuple[Any, ...]) -> tuple[Sequence[Any], Any]:
    """Arrays of arguments and their structure, in which references stay."""
    leaves, tree = tree_util.flatten(args)
    check_arguments(name, leaves, tree_util.tree_structure((args, {})), refs=True)
    leaves = [typed(x) for x in leaves]
    if not any(type(x) is Ref for x in leaves):
        return leaves, tree
    path = tree_util.tree_structure((args, {}))
    places = [i for i, x in enumerate(leaves) if type(x) is Ref]
    refs = [leaves[i] for i in places]
    if len(set(map(id, refs))) < len(refs):
        check_distinct(name, refs, [name_at(fun, path, i) for i in places])
    bound_to_rules()
    held = _WithRefs(tree, leaves)
    return held.without(leaves), held


class custom_jvp(HandsOn):  # noqa: N801
    """A function with a forward-mode derivative rule of its own; grad transposes the rule.

    Args:
      fun: a function of trees of arrays, called by position.
      nondiff_argnums: positions of arguments that are not differentiated (functions, say); the rule
        gets them first.
      nondiff_argnames: the same by name.

    Raises:
      AttributeError: it is called before a rule is set.
      TypeError: the rule's results do not fit the function's.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> @calque.custom_jvp
      ... def log1pexp(x):
      ...     return jnp.log(1.0 + jnp.exp(x))
      >>> @log1pexp.defjvp
      ... def rule(primals, tangents):
      ...     (x,), (t,) = primals, tangents
      ...     return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t
      >>> calque.grad(log1pexp)(100.0)
      Array(1., dtype=float32, weak_type=True)
    """

    def __init__(self, fun: Function, nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()) -> None:
        dress(self, fun, attributes=True)
        self.fun = fun
        self.nondiff_argnums = positions(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Function | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Set the rule: jvp(*nondiff, primals, tangents) -> (primal out, tangent out).

        Args:
          jvp: the rule; linear in tangents.
          symbolic_zeros: show zero tangents as SymbolicZero.

        Returns:
          The rule.

        Raises:
          Nothing.
        """
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Set a rule per argument: jvps[i](t, out, *args) -> tangent out; None is zero.

        Args:
          *jvps: one for each argument.

        Returns:
          Nothing.

        Raises:
          TypeError: together with nondiff_argnums.
        """
        if self.nondiff_argnums:
            raise TypeError(explain("Can't use ``defjvps`` with ``nondiff_argnums``.",
                                    fix="use defjvp."))

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            parts = [f(t, out, *primals) for f, t in zip(jvps, tangents) if f is not None]
            if not parts:
                return out, tree_util.tree_map(lambda x: instantiate(zero_like(x)), out)
            return out, functools.reduce(
                lambda a, b: tree_util.tree_map(add, a, b), parts)

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.jvp is None:
            raise AttributeError(explain(
                f"No JVP defined for custom_jvp function {name} using defjvp.",
                fix="set one with defjvp or defjvps."))
        args = resolved(self.fun, args, kwargs, type(self).__name__)
        given, others = _split(args, self.nondiff_argnums)
        leaves, tree = _flatten(name, self.fun, tuple(given))
        traced, whole = traced_among(others)  # operands, too: they may be mapped
        n = len(traced)
        kept: list[Any] = []

        def fun(*flat: Any) -> list[Any]:
            out = self.fun(*_whole(tree.unflatten(flat[n:]), whole(flat[:n]),
                                   self.nondiff_argnums))
            found, out_tree = flat_result(name, out)
            kept.append((out_tree, [aval_of(x) for x in found]))
            return found

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            assert self.jvp is not None
            moved_in = [t if self.symbolic_zeros or not isinstance(t, SymbolicZero) else
                        instantiate(zero_like(p)) for p, t in zip(primals[n:], tangents[n:])]
            pair = self.jvp(*whole(primals[:n]), tree.unflatten(primals[n:]),
                            tree.unflatten(moved_in))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(explain(
                    f"Custom JVP rule {name_of(self.jvp)} for function {name} must produce a pair "
                    f"(list or tuple of length two) representing primal and tangent outputs, but "
                    f"got {pair}."))
            outs, out_tree = flat_result(name, pair[0])
            moved, moved_tree = tree_util.flatten(
                pair[1], is_leaf=lambda x: isinstance(x, SymbolicZero))
            if out_tree != moved_tree:
                raise TypeError(explain(
                    f"Custom JVP rule {name_of(self.jvp)} for function {name} must produce primal "
                    f"and tangent outputs with equal container (pytree) structures, but got "
                    f"{out_tree} and {moved_tree} respectively."))
            if kept and (wrong := primal_error("JVP", name_of(self.jvp), name, (out_tree, outs),
                                               kept[-1])):
                raise wrong
            kept.append((out_tree, [aval_of(x) for x in outs]))
            for i, (o, t) in enumerate(zip(outs, moved)):
                have, want = aval_of(t), aval_of(o).tangent()
                if isinstance(t, SymbolicZero) or want.dtype == dtypes.float0:
                    continue
                if not same_type(have, want):
                    raise TypeError(explain(
                        "Custom JVP rule must produce primal and tangent outputs with "
                        f"corresponding shapes and dtypes. Expected {aval_of(o)} "
                        f"(tangent type of {want}) but got {have}.",
                        where=f"leaf {i} of what {name_of(self.jvp)} returned for {name}"))
            return outs, moved

        outs = custom_jvp_p.bind(*traced, *leaves, call_jaxpr=Rule(fun), jvp=Rule(rule),
                                 num_consts=0,
                                 symbolic_zeros=self.symbolic_zeros or n > 0)
        return kept[-1][0].unflatten(outs)


class custom_vjp(HandsOn):  # noqa: N801
    """A function with a reverse-mode derivative rule of its own.

    Args:
      fun: a function of trees of arrays, called by position.
      nondiff_argnums: positions of arguments that are not differentiated (functions, say); the
        backward rule gets them first.
      nondiff_argnames: the same by name.

    Raises:
      AttributeError: it is called before rules are set.
      TypeError: forward mode is asked for, or the rules' results do not fit the function's.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> @calque.custom_vjp
      ... def clipped(x):
      ...     return x
      >>> clipped.defvjp(lambda x: (x, None), lambda res, ct: (jnp.clip(ct, -1, 1),))
      >>> calque.grad(lambda x: 5 * clipped(x))(2.0)
      Array(1., dtype=float32, weak_type=True)
    """

    def __init__(self, fun: Function, nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()) -> None:
        dress(self, fun, attributes=True)
        self.fun = fun
        self.nondiff_argnums = positions(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Function | None = None
        self.bwd: Function | None = None
        self.symbolic_zeros = self.optimize_remat = False

    def defvjp(self, fwd: Function, bwd: Function,
               symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the rules.

        Args:
          fwd: fwd(*args) -> (output, residuals).
          bwd: bwd(*nondiff, residuals, cotangent) -> one cotangent per differentiated argument;
            None is zero.
          symbolic_zeros: fwd gets CustomVJPPrimal, bwd SymbolicZero for zeros.
          optimize_remat: inside checkpoint the forward pass calls the function, and fwd is called
            in the backward pass only.

        Returns:
          Nothing.

        Raises:
          Nothing.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros
        self.optimize_remat = optimize_remat

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(explain(
                f"No VJP defined for custom_vjp function {name} using defvjp.",
                fix="set the rules with defvjp."))
        args = resolved(self.fun, args, kwargs, type(self).__name__)
        given, others = _split(args, self.nondiff_argnums)
        for x in tree_util.tree_leaves(others):
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(explain(
                    f"Found a JAX Tracer object passed as an argument to a custom_vjp function "
                    f"({name}) in a position indicated by nondiff_argnums as non-differentiable. "
                    "Tracers cannot be passed as non-differentiable arguments to custom_vjp "
                    "functions; instead, nondiff_argnums should only be used for arguments that "
                    "can't be or contain tracers, e.g. function-valued arguments.",
                    fix="make it an ordinary argument and return None as its cotangent."))
        leaves, tree = _flatten(name, self.fun, tuple(given))
        call = _VjpCall(self, name, tree, others, [aval_of(x) for x in leaves])
        outs = custom_vjp_p.bind(*leaves, call_jaxpr=Rule(call.fun),
                                 fwd=Rule(call.forward, self.optimize_remat),
                                 bwd=Rule(call.backward), num_consts=0,
                                 symbolic_zeros=self.symbolic_zeros)
        return call.out_tree.unflatten(outs)


class _VjpCall:
    """One call of a custom_vjp as functions of flat values."""

    def __init__(self, owner: custom_vjp, name: str, tree: Any, others: list[Any],
                 avals: list[ShapedArray]) -> None:
        self.owner, self.name, self.tree, self.others = owner, name, tree, others
        self.avals = avals
        self.out_tree: Any = None
        self.out_avals: list[ShapedArray] | None = None  # once fun was called
        self.residual_tree: Any = None

    def fun(self, *flat: Any) -> list[Any]:
        args = _whole(self.tree.unflatten(flat), self.others, self.owner.nondiff_argnums)
        leaves, self.out_tree = flat_result(self.name, self.owner.fun(*args))
        self.out_avals = [aval_of(x) for x in leaves]
        return leaves

    def forward(self, primals: Sequence[Any], nonzero: Sequence[bool]
                ) -> tuple[list[Any], list[Any]]:
        assert self.owner.fwd is not None
        shown: list[Any] = list(primals)
        if self.owner.symbolic_zeros:
            shown = [CustomVJPPrimal(x, bool(n)) for x, n in zip(primals, nonzero)]
        args = _whole(self.tree.unflatten(shown), self.others, self.owner.nondiff_argnums)
        pair = self.owner.fwd(*args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(explain(
                f"Custom VJP fwd rule {name_of(self.owner.fwd)} for function {self.name} must "
                "produce a pair (list or tuple of length two) where the first element represents "
                "the primal output (equal to those of the custom_vjp-decorated function "
                f"{self.name}) and the second element represents residuals (i.e. values stored "
                f"from the forward pass for use on the backward pass), but instead of a pair the "
                f"fwd rule {name_of(self.owner.fwd)} produced {pair}."))
        outs, tree = flat_result(self.name, pair[0])
        if self.out_avals is not None and (wrong := primal_error(
                "VJP fwd", name_of(self.owner.fwd), self.name, (tree, outs),
                (self.out_tree, self.out_avals))):
            raise wrong
        self.out_tree = tree
        residuals, self.residual_tree = tree_util.flatten(pair[1])
        self._check_refs(residuals)
        arrays = [is_arraylike(r) for r in residuals]
        self.static = [None if a else r for r, a in zip(residuals, arrays)]
        self.arrays = arrays
        return outs, flagged(residuals, arrays)

    def _check_refs(self, residuals: Sequence[Any]) -> None:
        """ValueError for a residual that is a reference and no argument."""
        given = self.tree.leaves if isinstance(self.tree, _WithRefs) else ()
        for i, x in enumerate(residuals):
            if type(x) is Ref and not any(x is g for g in given):
                path = tree_util.tree_leaves_with_path(
                    self.residual_tree.unflatten(range(len(residuals))))[i][0]
                raise ValueError(explain(
                    f"custom_vjp fwd function {name_of(self.owner.fwd)} returned a mutable array "
                    f"reference of type {x.abstract} at output tree path "
                    f"[1]{tree_util.keystr(path)} that was not an argument.",
                    fix="pass the reference as an argument of the function, or return its value."))

    def backward(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        assert self.owner.bwd is not None
        given = iter(residuals)
        kept = [next(given) if a else s for a, s in zip(self.arrays, self.static)]
        found = self.owner.bwd(*self.others, self.residual_tree.unflatten(kept),
                               self.out_tree.unflatten(cts))
        return self._flat(found)

    def _flat(self, found: Any) -> list[Any]:
        """Cotangents in the order of the flat arguments; None where a whole argument has none."""
        bwd = name_of(self.owner.bwd)
        whole = self.tree.unflatten(self.avals)
        if isinstance(found, list):
            found = tuple(found)
        if not isinstance(found, tuple) or len(found) != len(whole):
            got = f"a tuple of length {len(found)}" if isinstance(found, tuple) else repr(found)
            raise TypeError(explain(
                f"Custom VJP bwd rule {bwd} must produce a tuple of length equal to the number of "
                f"differentiated arguments, {len(whole)}, one cotangent for each argument of "
                f"{self.name}, but got {got}."))
        flat: list[Any] = []
        for i, (part, want) in enumerate(zip(found, whole)):
            flat += self._matched(bwd, part, want, i)
        return self.tree.without(flat) if isinstance(self.tree, _WithRefs) else flat

    def _matched(self, bwd: str, part: Any, want: Any, argument: int) -> list[Any]:
        avals, tree = tree_util.flatten(want)
        leaves: list[Any] = []

        def take(ct: Any, below: Any) -> None:  # (a cotangent may stand for a whole subtree)
            leaves.extend([ct] * len(tree_util.tree_leaves(below)))

        try:
            tree_util.tree_map(take, part, want, is_leaf=_is_zero_or_none)
        except ValueError:
            got = tree_util.flatten(part, is_leaf=_is_zero_or_none)[1]
            raise TypeError(explain(
                f"Custom VJP bwd rule {bwd} must produce cotangents with the structure of the "
                f"arguments of {self.name}: {tree}, but got {got}.")) from None

        def path(at: int) -> str:
            return f"[{argument}]" + tree_util.keystr(tree_util.tree_leaves_with_path(want)[at][0])

        return [self._checked(c, a, functools.partial(path, i))
                for i, (c, a) in enumerate(zip(leaves, avals))]

    def _checked(self, ct: Any, aval: Any, path: Callable[[], str]) -> Any:
        if type(aval) is Ref:
            return None
        want = aval.tangent()
        if ct is None or want.dtype == dtypes.float0:
            return None
        if isinstance(ct, SymbolicZero):
            if ct.shape != want.shape or ct.dtype != want.dtype:
                raise cotangent_error(path(), ct.aval, want, aval, symbolic=True)
            return None
        have = aval_of(ct)
        if have.dtype == dtypes.float0:
            return None
        if have.shape == want.shape and have.dtype != want.dtype and dtypes.is_float(
                have.dtype) and dtypes.is_float(want.dtype):  # more, or fewer, digits than asked
            return convert_element_type_p.bind(ct, new_dtype=want.dtype, weak_type=want.weak_type,
                                               sharding=None)
        if not (same_type(have, want) and same_axes(have, want)) and (
                not config.jax_disable_bwd_checks):
            raise cotangent_error(path(), have, want, aval, symbolic=False)
        return ct


def _is_zero_or_none(x: Any) -> bool:
    return x is None or isinstance(x, SymbolicZero)


def custom_gradient(fun: Function) -> Function:
    """A function that returns its value together with its backward rule.

    Args:
      fun: fun(*args) -> (output, rule); rule(ct) gives the cotangent of the argument, or a tuple of
        one for each.

    Returns:
      The function of args that gives the output.

    Raises:
      TypeError: as custom_vjp.

    Example:
      >>> import calque
      >>> @calque.custom_gradient
      ... def f(x):
      ...     return x ** 2, lambda g: (g * 100 * x,)
      >>> calque.grad(f)(3.0)
      Array(300., dtype=float32, weak_type=True)
    """
    @custom_vjp
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        out, rule = fun(*args)
        leaves, tree = tree_util.flatten(out)
        avals = [aval_of(x).tangent() for x in leaves]
        trees: list[Any] = []

        def flat(*cts: Any) -> list[Any]:
            found = rule(tree.unflatten(cts))
            found = as_tuple(found)
            values, made = tree_util.flatten(found)
            trees.append(made)
            return values

        program = stage(flat, avals, "custom_gradient")
        return out, (list(program.consts), _Held((program, trees[0])))

    def bwd(residuals: Any, ct: Any) -> Any:
        consts, held = residuals
        program, tree = held.value
        return tree.unflatten(replay(program, *tree_util.tree_leaves(ct), consts=consts))

    wrapped.defvjp(fwd, bwd)
    return dress(wrapped, fun, attributes=True)


class _Held:
    """A value that rides along residuals without being an array."""

    def __init__(self, value: Any) -> None:
        self.value = value


def closure_convert(fun: Function, *example_args: Any
                    ) -> tuple[Function, list[Any]]:
    """A function whose captured arrays have become arguments.

    Args:
      fun: a function of arrays that may use values of enclosing transformations.
      *example_args: arguments by whose shapes and dtypes it is traced.

    Returns:
      (converted, values): converted(*args, *values) equals fun(*args); values are the floating
      point arrays that fun captured.

    Raises:
      TypeError: an argument is no array.

    Example:
      >>> import calque
      >>> def f(x):
      ...     g, values = calque.closure_convert(lambda y: x * y, 2.0)
      ...     return g(3.0, *values)
      >>> calque.grad(f)(5.0)
      Array(3., dtype=float32, weak_type=True)
    """
    leaves, tree = tree_util.flatten(example_args)
    check_arguments("closure_convert", leaves, tree_util.tree_structure((example_args, {})))
    trees: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        found, out_tree = flat_result(name_of(fun), fun(*tree.unflatten(xs)))
        trees.append(out_tree)
        return found

    program = stage(flat, [aval_of(x) for x in leaves], name_of(fun))
    moved = [isinstance(c, Tracer) and dtypes.is_inexact(dtype_of(c))
             for c in program.consts]
    values = flagged(program.consts, moved)

    def converted(*args: Any) -> Any:
        count = len(args) - len(values)
        own, rest = args[:count], iter(args[count:])
        consts = [next(rest) if m else c for c, m in zip(program.consts, moved)]
        given, given_tree = tree_util.flatten(own)
        if given_tree != tree:
            raise TypeError(explain(
                f"The inputs to the closure produced by closure_convert must have the same Pytree "
                f"structure as the example arguments passed when closure_convert was called. "
                f"Expected {tree}, but got {given_tree}."))
        return trees[0].unflatten(replay(program, *given, consts=consts))

    return converted, values


def zero_from_primal(x: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of the arrays of a tree.

    Args:
      x: tree of arrays.
      symbolic_zeros: as SymbolicZeros.

    Returns:
      A tree of arrays of zeros of the tangents' dtypes (float0 for integers), or of SymbolicZeros.

    Raises:
      TypeError: a leaf is no array.

    Example:
      >>> from calque.custom_derivatives import zero_from_primal
      >>> zero_from_primal(2.0)
      Array(0., dtype=float32, weak_type=True)
    """
    def zero(leaf: Any) -> Any:
        aval = aval_of(leaf)
        if symbolic_zeros:
            return SymbolicZero(aval.tangent())
        made = instantiate(zero_like(leaf))
        weak = aval.weak_type and aval.tangent().dtype == aval.dtype
        return convert_element_type_p.bind(
            made, new_dtype=aval.dtype, weak_type=True, sharding=None) if weak else made
    return tree_util.tree_map(zero, x)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a tree of CustomVJPPrimal.

    Args:
      tree: what a forward rule with symbolic_zeros=True got.

    Returns:
      The tree of values.

    Raises:
      TypeError: a leaf is no CustomVJPPrimal.

    Example:
      >>> from calque.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
      >>> custom_vjp_primal_tree_values([CustomVJPPrimal(1.0, True)])
      [1.0]
    """
    def value(leaf: Any) -> Any:
        if not isinstance(leaf, CustomVJPPrimal):
            raise TypeError(explain(f"unexpected leaf type {type(leaf)}, expected CustomVJPPrimal"))
        return leaf.value
    return tree_util.tree_map(value, tree)


__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp",
    "custom_jvp_call_p", "custom_vjp", "custom_vjp_call_p",
    "custom_vjp_primal_tree_values", "is_zero", "zero_from_primal"]


def __dir__() -> list[str]:
    return __all__
