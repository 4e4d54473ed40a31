"""The linear maps that vjp, linearize and linear_transpose return: trees of residuals.

So they go through jit, scan and vmap, are mapped, saved and put on devices as any tree of arrays.
What is no array, the linear Program among it, is the node's (`_Form`); two maps whose Programs have
one structure are nodes of one kind, so a function that is compiled takes either.
Start reading at `VJP`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.api.cotangents import DidntWant, DontWant, GradRef, NotNeeded
from calque.core import dtypes
from calque.core.avals import (
    ShapedArray,
    aval_of,
    dtype_of,
    is_arraylike,
    same_axes,
    same_type,
)
from calque.core.errors import explain
from calque.core.lists import flagged
from calque.core.primitive import UndefinedPrimal
from calque.core.program import Itself, Program
from calque.core.refs import (
    AbstractRef,
    Ref,
    assign,
    check_distinct,
    differentiated_by,
    read,
)
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.core.zeros import Zero, is_zero, zeros
from calque.dispatch.array import Array, to_array
from calque.dispatch.eager import as_given, lazy_eval, remembered
from calque.primitives import elementwise as ew
from calque.primitives.custom import Rule
from calque.transforms.stage import replay
from calque.transforms.transpose import backward
from calque.trees import nodes
from calque.trees import util as tree_util


class _Form:
    """What of a linear map is no residual: its Program, with residuals as leading inputs."""

    __slots__ = ("program", "count", "details")

    def __init__(self, program: Program, details: tuple[Any, ...]) -> None:
        self.program, self.count = program.consts_as_inputs(), len(program.consts)
        self.details = details

    def with_residuals(self, residuals: Sequence[Any]) -> Program:
        p = self.program
        return Program(p.inputs[self.count:], p.equations, p.outputs, p.inputs[:self.count],
                       residuals, p.name)

    def _key(self) -> tuple[Any, ...]:
        return self.program.key(), self.count, self.details, _rules(self.program)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, _Form) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<{self.program.name}>"


@dataclasses.dataclass(frozen=True, slots=True)
class TreeWithRefs:
    """The structure of primals that are partly references: a pullback's result has one with zeros
    for each, since backward rules write into the references themselves.  refs: their types, None
    for arrays."""
    tree: Any
    refs: tuple[AbstractRef | None, ...]

    def unflatten(self, values: Sequence[Any]) -> Any:
        given = iter(values)
        return self.tree.unflatten([
            next(given) if r is None else Ref(to_array(zeros(r.inner_aval))) for r in self.refs])

    def flatten_up_to(self, tree: Any) -> Any:
        return self.tree.flatten_up_to(tree)

    @property
    def of_arrays(self) -> Any:
        return tree_util.tree_structure(tuple(0 for r in self.refs if r is None))


def apart_from_refs(fun: Function, leaves: Sequence[Any], tree: Any, names: Any
                    ) -> tuple[Function, list[Any], Any, Any]:
    """A function and its arguments without the references among them: (function of the others,
    these, their structure, the structure that cotangents have); names(i): how leaf i is called."""
    if not any(type(x) is Ref for x in leaves):
        return fun, list(leaves), tree, tree
    refs = [x for x in leaves if type(x) is Ref]
    check_distinct("vjp", refs, [names(i) for i, x in enumerate(leaves) if type(x) is Ref])

    def of_others(*values: Any) -> Any:
        given = iter(values)
        with differentiated_by(refs):
            return fun(*tree.unflatten([x if type(x) is Ref else next(given) for x in leaves]))

    others = [x for x in leaves if type(x) is not Ref]
    return of_others, others, tree_util.tree_structure(tuple(others)), TreeWithRefs(
        tree, tuple(x.abstract if type(x) is Ref else None for x in leaves))


def _rules(p: Program) -> tuple[Itself, ...]:
    """The rules of custom derivatives in a Program, which are equal to none but themselves: what is
    compiled does not depend on them, and Program.key leaves them out, but a map is made of them."""
    return tuple(found for e in p.equations for v in e.params.values() for found in (
        (Itself(v),) if type(v) is Rule else _rules(v) if isinstance(v, Program) else
        tuple(r for q in v if isinstance(q, Program) for r in _rules(q))
        if isinstance(v, tuple) else ()))


class _LinearMap:
    """A linear Program and what its function of trees has beside it.

    Attributes:
      program: linear in its inputs; its consts are the residuals.
      details: what __call__ needs beside it, hashable.
    """

    def __init__(self, program: Program, *details: Any) -> None:
        self.program, self.details = program, details

    def _flatten(self) -> tuple[Any, Any]:
        return list(self.program.consts), _Form(self.program, self.details)

    @classmethod
    def _unflatten(cls, form: _Form, children: Any) -> Any:
        made = cls.__new__(cls)
        made.program, made.details = form.with_residuals(tuple(children)), form.details
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.program.name}, residuals={list(self.program.consts)})"

    def __init_subclass__(cls) -> None:
        nodes.register_pytree_node(cls, cls._flatten, cls._unflatten)


class VJP(_LinearMap):
    """The transposed linear map that vjp returns: cotangents of outputs to those of inputs.

    A node of trees: its leaves are the residuals, those that are arguments of the function first.

    Attributes:
      args_res: for each primal a tree like it: of each array it, if it is a residual, else
        NotNeeded(); may be set, to None to leave arrays away and to these before it is called.
      opaque_residuals: the other residuals.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> y, back = calque.vjp(lambda x: x * jnp.sin(x), 0.0)
      >>> back.args_res, len(calque.tree.leaves(back))
      ([Array(0., dtype=float32, weak_type=True)], 3)
      >>> calque.jit(lambda back, ct: back(ct))(back, 1.0)
      (Array(0., dtype=float32, weak_type=True),)
    """

    _order: tuple[int | None, ...]  # of each residual which argument it is, if one

    def split(self, leaves: Sequence[Any]) -> VJP:
        """The same, which knows its residuals among the arguments."""
        places = {id(x): i for i, x in enumerate(leaves)}
        self._order = tuple(places.get(id(c)) for c in self.program.consts)
        return self

    @property
    def _primals(self) -> Any:
        """The structure of the primals that are arrays."""
        tree = self.details[4]
        return tree.of_arrays if isinstance(tree, TreeWithRefs) else tree

    @property
    def args_res(self) -> list[Any]:
        given = dict(zip(self._order, self.program.consts))
        return list(self._primals.unflatten([
            given.get(i, NotNeeded()) for i in range(len(self.details[2]))]))

    @args_res.setter
    def args_res(self, values: Sequence[Any]) -> None:
        parts = self._primals.children()
        if len(values) != len(parts):
            raise ValueError(explain(
                f"args_res: {len(values)} values for {len(parts)} primals.",
                fix="give one for each, None where it is set later."))
        flat: list[Any] = []
        for v, tree in zip(values, parts):
            flat += [None] * tree.num_leaves if v is None else tree.flatten_up_to(v)
        self.program = self.program.replace(consts=[
            c if place is None else flat[place]
            for place, c in zip(self._order, self.program.consts)])

    @property
    def opaque_residuals(self) -> list[Any]:
        return [c for place, c in zip(self._order, self.program.consts) if place is None]

    def _flatten(self) -> tuple[Any, Any]:
        form = _Form(self.program, (*self.details, self._order))
        return (self.args_res, self.opaque_residuals), form

    @classmethod
    def _unflatten(cls, form: _Form, children: Any) -> VJP:
        given, rest = children
        others = iter(rest)
        made = cls.__new__(cls)
        *details, made._order = form.details
        made.details = tuple(details)
        arguments = made._primals.flatten_up_to(tuple(given))
        made.program = form.with_residuals([
            next(others) if place is None else arguments[place] for place in made._order])
        return made

    def flat(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents (Zero where zero) of all inputs, in order."""
        mask, nonzero, in_avals = self.details[:3]
        given = flagged(cts, mask)
        linear = [UndefinedPrimal(v.aval) for v in self.program.inputs]
        found = iter(backward(self.program, linear, given))
        return [next(found) if n else Zero(a.tangent()) for n, a in zip(nonzero, in_avals)]

    def __call__(self, *cts: Any) -> Any:
        _, _, in_avals, out_avals, in_tree, out_tree = self.details
        if len(cts) != 1:
            name = self.program.name
            raise TypeError(explain(
                f"The function returned by `jax.vjp` applied to {name} was called with {len(cts)} "
                f"arguments, but functions returned by `jax.vjp` must be called with one, the "
                f"cotangent of what {name} returned.",
                fix=f"pass a tuple where {name} returns a tuple."))
        ct = cts[0]
        leaves, tree = tree_util.flatten(ct)
        if tree != out_tree:
            raise ValueError(explain(
                f"unexpected tree structure of argument to vjp function: got {tree}, but expected "
                f"to match {out_tree}.",
                fix="pass cotangents with the structure of the function's output."))
        with lazy_eval("vjp"):
            given = remembered(leaves, [
                check_cotangent(c, a) for c, a in zip(leaves, out_avals)])
            return in_tree.unflatten([
                as_given(shown(c, a)) for c, a in zip(self.flat(given), in_avals)])

    def with_refs(self, *wanted: Any) -> Callable[[Any], Any]:
        """The pullback that adds cotangents to references.

        Args:
          *wanted: for each array of the primals, in their structure: a Ref of its shape and dtype,
            ad.DontWant(), or ad.GradValue() (or another object that is no array).

        Returns:
          A function of one cotangent like the pullback; it returns ad.GradRef() where it added to a
          reference, the cotangent where it was wanted, else ad.DidntWant().

        Raises:
          TypeError: an array is given.
          ValueError: the structure is not that of the primals, or a Ref has another shape or dtype.

        Example:
          >>> import calque
          >>> total = calque.new_ref(10.0)
          >>> _, back = calque.vjp(lambda x: x * x, 3.0)
          >>> back.with_refs(total)(1.0), total[...]
          ((GradRef(),), Array(16., dtype=float32, weak_type=True))
        """
        in_tree = self.details[4]
        leaves = in_tree.flatten_up_to(wanted)
        for x in leaves:
            if is_arraylike(x):
                raise TypeError(explain(
                    f"with_refs takes references, GradValue() and DontWant(), got {x!r}.",
                    fix="pass ad.GradValue() for an argument whose cotangent is to be returned."))

        def pull(ct: Any) -> Any:
            found = in_tree.flatten_up_to(self(ct))
            tree = in_tree.tree if isinstance(in_tree, TreeWithRefs) else in_tree
            return tree.unflatten([_given(x, c) for x, c in zip(leaves, found)])

        return pull


class Linearized(_LinearMap):
    """The linear map that linearize returns: tangents of inputs to those of outputs."""

    def __call__(self, *tangents: Any) -> Any:
        in_avals, nonzero, mask, out_avals, in_tree, out_tree = self.details
        given, tree = tree_util.flatten(tangents)
        if tree != in_tree:
            raise TypeError(explain(
                f"linearized function called with tangents of structure {tree}, but the primals "
                f"had {in_tree}."))
        with lazy_eval("linearized"):
            ts = remembered(given, [_check_linearized(t, a) for t, a in zip(given, in_avals)])
            found = iter(replay(self.program, *flagged(ts, nonzero)))
            full = [next(found) if m else Zero(a.tangent()) for m, a in zip(mask, out_avals)]
            return out_tree.unflatten([
                as_given(shown(t, a)) for t, a in zip(full[:out_tree.num_leaves], out_avals)])


class Transposed(_LinearMap):
    """What linear_transpose returns: cotangents of outputs to those of inputs."""

    def __call__(self, ct: Any) -> Any:
        in_avals, in_tree, out_tree = self.details
        given, tree = tree_util.flatten(ct)
        if tree != out_tree:
            raise TypeError(explain(f"cotangent tree does not match function output, "
                                    f"expected {out_tree} but got {tree}."))
        with lazy_eval("linear_transpose"):
            cts = [check_cotangent(c, a, True) for c, a in zip(given, self.program.out_avals)]
            found = backward(self.program, [UndefinedPrimal(a) for a in in_avals], cts)
            return in_tree.unflatten([shown(c, a) for c, a in zip(found, in_avals)])


def _given(wanted: Any, ct: Any) -> Any:
    """What with_refs returns for a cotangent."""
    if type(ct) is Ref and type(wanted) is Ref:  # its zeros
        return GradRef()
    if type(wanted) is not Ref:
        return DidntWant() if type(wanted) is DontWant else ct
    have, want = aval_of(ct), wanted.abstract.inner_aval
    if not same_type(have, want):
        raise ValueError(explain(
            f"with_refs: a cotangent {have.short()} cannot be added to a reference of type "
            f"{wanted.abstract}.", fix="give it a reference of its shape and dtype."))
    assign(wanted, ew.add(read(wanted), ct))
    return GradRef()


# ---- what goes in and comes out
def check_cotangent(ct: Any, aval: ShapedArray, linear: bool = False) -> Any:
    """linear: of a linear map, whose cotangents have the types of its outputs, integers too."""
    have, want = aval_of(ct), aval if linear else aval.tangent()
    if want.dtype == dtypes.float0 and have.shape == want.shape and not linear:
        return Zero(want)  # whatever is given for an integer
    if have.shape != want.shape or have.dtype != want.dtype or not same_axes(have, want):
        if linear:
            raise TypeError(explain(
                f"cotangent type does not match function output, expected {want.short()} but got "
                f"{have.short()}.", fix="pass a cotangent of the output's shape and dtype."))
        raise ValueError(explain(
            f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
            f"{have.short()}, but expected {want.short()} because the corresponding output of the "
            f"differentiated function had type {aval.short()}.",
            fix="pass a cotangent of the output's shape and dtype."))
    return ct if isinstance(ct, (Array, Tracer)) else to_array(ct)


def check_tangent(t: Any, aval: ShapedArray) -> Any:
    want, have = aval.tangent(), aval_of(t)
    if have.shape != want.shape:
        raise ValueError(explain(
            f"jvp called with different primal and tangent shapes; Got primal shape {aval.shape} "
            f"and tangent shape as {have.shape}.", fix="give the tangent its primal's shape."))
    if have.dtype != want.dtype:
        expected = "float0" if want.dtype == dtypes.float0 else want.dtype.name
        raise TypeError(explain(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in "
            f"case of int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{aval.dtype.name} and so expected tangent dtype {expected}, but got tangent "
            f"dtype {have.dtype.name} instead.",
            fix="cast the tangent; for integers pass np.zeros(shape, dtypes.float0)."))
    if want.dtype == dtypes.float0:
        return Zero(want)
    return t if isinstance(t, (Array, Tracer)) else to_array(t)


def _check_linearized(t: Any, aval: ShapedArray) -> Any:
    want, have = aval.tangent(), aval_of(t)
    if not (same_type(have, want) and same_axes(have, want)):
        raise ValueError(explain(
            "linearized function called on tangent values inconsistent with the original primal "
            f"values: Got tangent aval {have.short()} for primal aval {aval.short()} but expected "
            f"{want.short()}.{_casts(have, want)}",
            fix="give the tangent its primal's shape and dtype."))
    return check_tangent(t, aval)


def _casts(have: ShapedArray, want: ShapedArray) -> str:
    """JAX's advice where only the axes differ over which values vary."""
    found = [(have.mat.varying - want.mat.varying, "the primal value passed to `jax.linearize`"),
             (want.mat.varying - have.mat.varying, "the tangent value passed to the callable")]
    told = [f"\n  * applying `jax.lax.pcast(..., {tuple(sorted(axes, key=str))}, to='varying')` to "
            f"{what};" for axes, what in found if axes]
    return "\nThis might be fixed by:" + "".join(told) if told else ""


def shown(t: Any, primal: ShapedArray) -> Any:
    """A tangent or cotangent for the user: weak as its rules left it; zeros made real, weak where
    the primal is weak."""
    if not is_zero(t):
        return t
    if t.dtype == dtypes.float0:
        return np.zeros(t.shape, dtypes.float0)
    made = zeros(t.aval)
    if aval_of(made).weak_type == primal.weak_type:
        return made
    return ew.convert_element_type_p.bind(made, new_dtype=dtype_of(made),
                                          weak_type=primal.weak_type, sharding=None)


__all__ = ["VJP", "Linearized", "Transposed", "check_cotangent", "check_tangent",
           "shown"]
