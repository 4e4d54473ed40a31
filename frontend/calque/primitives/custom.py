"""Functions with derivative and batching rules of their own: custom_jvp, custom_vjp, custom_vmap.

Their equations hold Python functions of flat values.  Traces that do not transform run them
(`inline`); a record keeps the function as a Program (`staged`) and the rules as they are, for
transformations that come later.  Start reading at `_staged`, then `_jvp_of`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import CustomVJPException, explain
from calque.core.lists import flagged, without
from calque.core.numbers import typed
from calque.core.primitive import Primitive, is_linear
from calque.core.program import Program
from calque.core.refs import Frame
from calque.core.trace import current
from calque.core.types import Function, Params, Shape
from calque.core.zeros import Zero, instantiate, is_zero, nonzero_mask, zero_like
from calque.primitives.call import jit_p, unmask
from calque.primitives.reduce import reduce_sum
from calque.transforms.jvp import jvp_flat, jvp_program
from calque.transforms.linearize import linearize_flat
from calque.transforms.stage import closed, replay, stage
from calque.transforms.vmap import (
    all_to_front,
    front_axes,
    mapped_to_front,
    move_axis,
    named,
    to_front,
    vmap_flat,
)


def _effects(params: Params) -> bool:
    fun = params["call_jaxpr"]
    return isinstance(fun, Program) and fun.has_effects()


class CustomCall(Primitive):
    """One whose parameters evaluators of jaxprs may have as functions, as JAX gives them:
    `subfuns`, the function that is called and then its rules."""

    rules: tuple[str, ...] = ()

    def get_bind_params(self, params: Params) -> Params:
        rest = {k: v for k, v in params.items() if k not in ("call_jaxpr", *self.rules)}
        return {**rest, "subfuns": (CalledFunction(params["call_jaxpr"]),
                                    *[params[k] for k in self.rules])}

    def bind(self, *args: Any, **params: Any) -> Any:
        if "subfuns" in params:
            called, *rules = params.pop("subfuns")
            params["call_jaxpr"] = called.program if isinstance(called, CalledFunction) else (
                Rule(called.call_wrapped))
            params.update(zip(self.rules, rules))
        return super().bind(*args, **params)


class CalledFunction:
    """The function of an equation, to be called with values.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> e = calque.make_jaxpr(calque.nn.relu)(1.0).eqns[0]
      >>> e.primitive.get_bind_params(e.params)["subfuns"][0].call_wrapped(jnp.float32(-2.0))
      [Array(0., dtype=float32)]
    """

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def call_wrapped(self, *args: Any) -> list[Any]:
        return list(replay(self.program, *args))


custom_jvp_p = CustomCall("custom_jvp_call", multiple_results=True,  # linearized by its jvp
                          effects=_effects)
custom_vjp_p = CustomCall("custom_vjp_call", multiple_results=True, higher_order=True,
                          effects=_effects)
custom_jvp_p.rules, custom_vjp_p.rules = ("jvp",), ("fwd", "bwd")
custom_lin_p = Primitive("custom_lin", multiple_results=True, higher_order=True)
custom_vmap_p = Primitive("custom_vmap_call", multiple_results=True, higher_order=True,
                          effects=_effects)


class Rule:
    """A Python function in an equation.  All are equal: what is compiled does not depend on it."""

    __slots__ = ("fun", "spared")

    def __init__(self, fun: Function, spared: bool = False) -> None:
        self.fun = fun
        self.spared = spared  # a forward rule that checkpoint asks in the backward pass only

    def __call__(self, *args: Any) -> Any:
        return self.fun(*args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule)

    def __hash__(self) -> int:
        return hash(Rule)

    def __repr__(self) -> str:
        return getattr(self.fun, "__name__", "rule")


class SymbolicZero:
    """A tangent or cotangent known to be zero, for rules that ask for it (symbolic_zeros=True).

    Attributes:
      aval: shape and dtype.

    Example:
      >>> from calque.custom_derivatives import SymbolicZero
      >>> SymbolicZero.__name__
      'SymbolicZero'
    """

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.short()})"


def shown(tangents: Sequence[Any], symbolic: bool) -> list[Any]:
    """Tangents as a rule sees them."""
    return [SymbolicZero(t.aval) if symbolic and is_zero(t) else instantiate(t) for t in tangents]


def taken(tangents: Sequence[Any]) -> list[Any]:
    """Tangents as a rule returned them: zeros are known again."""
    return [Zero(aval_of(t)) if isinstance(t, SymbolicZero) else
            Zero(ShapedArray(t.shape, dtypes.float0)) if _is_float0(t) else t for t in tangents]


def _untouched(values: Sequence[Any]) -> list[Any]:
    """Values as a rule is given them: the Python number again where one is made of it."""
    return list(map(current.get().number, values))


def _as_given(primals: Sequence[Any]) -> list[Any]:
    """Arguments as a rule is given them: their numbers say which dtype they have."""
    return list(map(typed, _untouched(primals)))


def _is_float0(x: Any) -> bool:
    return getattr(x, "dtype", None) == dtypes.float0


# ---- what the three have in common: fun, or its Program with num_consts leading operands
def _staged(*args: Any, call_jaxpr: Any, num_consts: int, **params: Any) -> tuple[list[Any], Any]:
    if isinstance(call_jaxpr, Program):
        return list(args), {"call_jaxpr": call_jaxpr, "num_consts": num_consts, **params}
    program, consts = closed(_program(call_jaxpr, args))
    return [*consts, *args], {"call_jaxpr": program, "num_consts": num_consts + len(consts),
                              **params}


def _program(fun: Any, args: Sequence[Any]) -> Program:
    """The function of an equation as a Program of these operands."""
    return fun if isinstance(fun, Program) else stage(
        lambda *xs: fun(*xs), [aval_of(a) for a in args], "custom",
        frame=Frame(current.get(), reads=True))


def _inline(*args: Any, call_jaxpr: Any, **_: Any) -> list[Any]:
    return list(run(call_jaxpr, args))


def run(fun: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The function of an equation on values, under the current trace."""
    return replay(fun, *args) if isinstance(fun, Program) else fun(*args)


def _abstract(*avals: ShapedArray, call_jaxpr: Any, **_: Any) -> list[ShapedArray]:
    assert isinstance(call_jaxpr, Program), call_jaxpr
    return list(call_jaxpr.out_avals)


def _no_closed_tangents(name: str, tangents: Sequence[Any]) -> None:
    if not all(is_zero(t) for t in tangents):
        raise (CustomVJPException if name == "custom_vjp" else TypeError)(explain(
            f"Detected differentiation of a {name} function with respect to a closed-over value. "
            "That's not supported, because the custom rule only specifies how to differentiate "
            f"the {name} function with respect to explicit input parameters.",
            fix="pass the value as an argument."))


for _p in (custom_jvp_p, custom_vjp_p, custom_vmap_p):
    _p.staged, _p.inline, _p.abstract = _staged, _inline, _abstract


# how a function of one element runs over a batch: (f, values, their axes) -> (results, their axes)
Over = Callable[[Callable[..., Sequence[Any]], Sequence[Any], Sequence[int | None]],
                tuple[list[Any], list[int | None]]]


def _anew(size: int) -> Over:
    """In a vmap trace of its own."""
    name = named.get()  # (it may use the axis by its name, later too)
    return lambda f, values, dims: vmap_flat(f, size, values, dims, name)


class _Batch:
    """A batch over which a function and its rules run.  Results are mapped along axis 0 where an
    operand is mapped; else (functions close over mapped values) as the first that runs has it.
    `alike`: all or none is mapped."""

    def __init__(self, over: Over, size: int, dims: Sequence[int | None], alike: bool = False
                 ) -> None:
        self.over, self.size, self.dims, self.alike = over, size, list(dims), alike
        self.forced = any(d is not None for d in dims)
        self.found: list[int | None] = []
        self.known = False

    def run(self, fun: Any) -> Rule:
        """The function on all elements."""
        return Rule(lambda *xs: self.fit(*self.over(lambda *ys: run(fun, ys), xs, self.dims)))

    def fit(self, outs: Sequence[Any], axes: Sequence[int | None], parts: int = 1) -> list[Any]:
        """Values with these axes as results have them; `parts` values belong to each result."""
        count = len(outs) // parts
        if not self.known:
            mapped = [self.forced or any(a is not None for a in axes[i::count])
                      for i in range(count)]
            self.found = front_axes([any(mapped)] * count if self.alike else mapped)
            self.known = True
        return all_to_front(outs, axes, self.size,
                            [d is not None for _ in range(parts) for d in self.found])


# ---- custom_jvp: jvp(primals, tangents) -> (outputs, tangents), flat lists
def _jvp_of(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: Any, jvp: Rule,
            num_consts: int, symbolic_zeros: bool) -> Any:
    _no_closed_tangents("custom_jvp", tangents[:num_consts])
    outs, moved = jvp(_as_given(primals[num_consts:]),
                      _untouched(shown(tangents[num_consts:], symbolic_zeros)))
    return outs, taken(moved)


def _over_jvp(over: Over, size: int, args: Sequence[Any], dims: Sequence[int | None], *,
              call_jaxpr: Any, jvp: Rule, num_consts: int, symbolic_zeros: bool) -> Any:
    batch, own = _Batch(over, size, dims), list(dims[num_consts:])

    def every(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        count = len(primals)
        real = [not (isinstance(t, SymbolicZero) or _is_float0(t)) for t in tangents]
        fixed: list[bool] = []  # results whose tangents are zeros

        def one(*xs: Any) -> list[Any]:
            some = iter(xs[count:])
            ts = [next(some) if r else _element(t, d) for t, r, d in zip(tangents, real, own)]
            outs, moved = jvp(list(xs[:count]), ts)
            fixed[:] = map(is_zero, taken(moved))
            return [*outs, *shown(taken(moved), False)]

        flat = batch.fit(*over(one, [*primals, *flagged(tangents, real)],
                               [*own, *flagged(own, real)]), parts=2)
        outs, moved = flat[:len(flat) // 2], flat[len(flat) // 2:]
        return outs, [SymbolicZero(aval_of(o).tangent()) if z else t
                      for o, t, z in zip(outs, moved, fixed)]

    outs = custom_jvp_p.bind(*args, call_jaxpr=batch.run(call_jaxpr), jvp=Rule(every),
                             num_consts=num_consts,
                             symbolic_zeros=symbolic_zeros)
    return outs, batch.found


def _batch_of_jvp(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any
                  ) -> Any:
    return _over_jvp(_anew(size), size, args, dims, **params)


def _element(t: Any, axis: int | None) -> Any:
    """A zero tangent of a batch as that of one element."""
    if axis is None:
        return t
    shape = without(t.shape, [axis])
    zero = Zero(ShapedArray(shape, t.dtype))
    return SymbolicZero(zero.aval) if isinstance(t, SymbolicZero) else instantiate(zero)


def _transpose_of_jvp(cts: Sequence[Any], *args: Any, call_jaxpr: Any, **_: Any) -> Any:
    """Of a linear function: the rule is not asked any more."""
    return jit_p.rule("transpose")(cts, *args, jaxpr=call_jaxpr, name=call_jaxpr.name)


custom_jvp_p.jvp, custom_jvp_p.batch = _jvp_of, _batch_of_jvp
custom_jvp_p.transpose, custom_jvp_p.within = _transpose_of_jvp, _over_jvp


def without_derivative(x: Any, refuse: Function) -> list[Any]:
    """[x]; whoever differentiates by it is refused: refuse(primals, tangents) raises."""
    return custom_jvp_p.bind(x, call_jaxpr=Rule(lambda v: [v]), jvp=Rule(refuse),
                             num_consts=0, symbolic_zeros=False)


# ---- custom_vjp: fwd(*primals) -> (outputs, residuals); bwd(residuals, cotangents)
def _no_forward_mode(*_: Any, **__: Any) -> Any:
    raise TypeError(explain(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function.",
        fix="use reverse mode (grad, vjp), or give the function a custom_jvp rule instead."))


def _linearize_vjp(nonzero: Sequence[bool], primals: Sequence[Any], *, call_jaxpr: Any, fwd: Rule,
                   bwd: Rule, num_consts: int, symbolic_zeros: bool) -> Any:
    if any(nonzero[:num_consts]):
        _no_closed_tangents("custom_vjp", [None])
    own = list(primals[num_consts:])
    given = _as_given(own)
    outs, residuals = fwd(given, list(nonzero[num_consts:]))
    arrays = {id(g): x for g, x in zip(given, own)}
    residuals = [arrays.get(id(r), r) for r in residuals]  # (a pullback is made of arrays)
    numbers = tuple((i, r) for i, r in enumerate(residuals)  # Python's stay what they are
                    if type(r) in (bool, int, float, complex))
    residuals = [r for r in residuals if type(r) not in (bool, int, float, complex)]
    avals = tuple(aval_of(o).tangent() for o in outs)
    inputs = tuple(aval_of(x).tangent() for x in own)

    def apply(*tangents: Any) -> list[Any]:
        made = custom_lin_p.bind(
            *residuals, *tangents, bwd=bwd, num_res=len(residuals), avals=avals, inputs=inputs,
            nonzero=tuple(nonzero[num_consts:]), symbolic_zeros=symbolic_zeros, numbers=numbers)
        return [Zero(a) if a.dtype == dtypes.float0 else m for a, m in zip(avals, made)]

    return outs, apply


def _over_vjp(over: Over, size: int, args: Sequence[Any], dims: Sequence[int | None], *,
              call_jaxpr: Any, fwd: Rule, bwd: Rule, num_consts: int, symbolic_zeros: bool) -> Any:
    batch, own = _Batch(over, size, dims, alike=True), list(dims[num_consts:])
    inner: list[int | None] = []  # axes of the residuals, known when fwd has run

    def forward(primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        one, counts = _flat_fwd(fwd, nonzero)
        flat, found = over(one, primals, own)
        inner[:] = found[counts[0]:]
        return batch.fit(flat[:counts[0]], found[:counts[0]]), flat[counts[0]:]

    outs = custom_vjp_p.bind(*args, call_jaxpr=batch.run(call_jaxpr), fwd=Rule(forward, fwd.spared),
                             bwd=Rule(_batched_bwd(bwd, batch, inner, own)),
                             num_consts=num_consts, symbolic_zeros=symbolic_zeros)
    return outs, batch.found


def _batch_of_vjp(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any
                  ) -> Any:
    return _over_vjp(_anew(size), size, args, dims, **params)


def _flat_fwd(fwd: Rule, nonzero: Sequence[bool]
              ) -> tuple[Callable[..., list[Any]], list[int]]:
    """A forward rule that gives results and residuals in one list, and how many are results."""
    counts: list[int] = []

    def one(*xs: Any) -> list[Any]:
        outs, residuals = fwd(list(xs), nonzero)
        counts.append(len(outs))
        return [*outs, *residuals]
    return one, counts


def _batched_bwd(bwd: Rule, batch: _Batch, axes: Sequence[int | None],
                 dims: Sequence[int | None]) -> Callable[..., list[Any]]:
    def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        mapped = any(d is not None for d in batch.found)
        n = len(residuals)
        real = [not (isinstance(c, SymbolicZero) or _is_float0(c)) for c in cts]
        kinds: list[Any] = []
        axis = 0 if mapped else None

        def one(*xs: Any) -> list[Any]:
            given = iter(xs[n:])
            some = [next(given) if r else _element(c, axis) for c, r in zip(cts, real)]
            found = bwd(list(xs[:n]), some)
            kinds[:] = [f is None or is_zero(f) for f in found]
            return [f for f in found if not (f is None or is_zero(f))]

        given = flagged(cts, real)
        flat, out_axes = batch.over(one, [*residuals, *given], [*axes, *[axis] * len(given)])
        pairs = iter(zip(flat, out_axes))
        made: list[Any] = []
        for zero, d in zip(kinds, dims):
            if zero:
                made.append(None)
                continue
            value, at = next(pairs)
            if mapped or at is not None:
                value = to_front(value, at, batch.size)
                value = reduce_sum(value, (0,)) if d is None else move_axis(value, 0, d)
            made.append(value)
        return made
    return backward


custom_vjp_p.jvp, custom_vjp_p.linearize = _no_forward_mode, _linearize_vjp
custom_vjp_p.batch, custom_vjp_p.within = _batch_of_vjp, _over_vjp


# ---- custom_lin: the linear map of a custom_vjp, known by its transpose only
def _lin_abstract(*_: ShapedArray, avals: tuple[ShapedArray, ...], **__: Any) -> list[ShapedArray]:
    return list(avals)


def _lin_transpose(cts: Sequence[Any], *args: Any, bwd: Rule, num_res: int,
                   avals: tuple[ShapedArray, ...], inputs: tuple[ShapedArray, ...],
                   nonzero: tuple[bool, ...], symbolic_zeros: bool,
                   numbers: tuple[tuple[int, Any], ...]) -> list[Any]:
    residuals = list(args[:num_res])
    assert not any(is_linear(r) for r in residuals)
    for i, number in numbers:
        residuals.insert(i, number)
    found = bwd([typed(r) for r in residuals], _untouched(shown(cts, symbolic_zeros)))
    kept = [Zero(a.cotangent()) if f is None else f for f, a, n in zip(found, inputs, nonzero) if n]
    return [None] * num_res + kept


custom_lin_p.abstract, custom_lin_p.transpose = _lin_abstract, _lin_transpose
custom_lin_p.jvp = custom_lin_p.linearize = custom_lin_p.batch = _no_forward_mode
custom_lin_p.inline = _no_forward_mode


# ---- custom_vmap: rule(size, batched, *args) -> (outputs, which are batched)
def _vmap_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: Any, rule: Rule,
              num_consts: int) -> Any:
    """The derivative is again a custom_vmap: of fun's derivative, by the rule's derivative."""
    n, real = len(primals), nonzero_mask(tangents)
    if any(real[:num_consts]):  # of a closed-over value, of which the rule knows nothing
        return jvp_flat(lambda *xs: run(call_jaxpr, xs), primals, tangents)
    forward, mask = jvp_program(_program(call_jaxpr, primals), real)

    def batched(size: int, flags: Sequence[bool], *xs: Any) -> Any:
        given = iter(zip(xs[n - num_consts:], flags[n - num_consts:]))
        pairs = [(x, f, *(next(given) if r else (zero_like(x), f)))
                 for x, f, r in zip(xs, flags, real[num_consts:])]
        if any(f and g for _, f, _, g in pairs):  # primals and tangents alike
            wide = [f or g for _, f, _, g in pairs]
            values = [v if is_zero(v) or m == w else to_front(v, None, size)
                      for (p, f, t, g), w in zip(pairs, wide) for v, m in ((p, f), (t, g))]
            return _derived_rule(rule, size, wide, values[::2], values[1::2], mask)
        return _rule_over(rule, size, pairs, mask)

    made = custom_vmap_p.bind(*primals, *flagged(tangents, real), call_jaxpr=forward,
                              rule=Rule(batched),
                              num_consts=num_consts)
    n_out = len(mask)
    return made[:n_out], unmask(made[n_out:], mask, made)


def _derived_rule(rule: Rule, size: int, flags: Sequence[bool], primals: Sequence[Any],
                  tangents: Sequence[Any], mask: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """Results of a rule and their tangents, with flags of both."""
    marks: list[Any] = []

    def outer(*xs: Any) -> list[Any]:
        outs, marks[:] = rule(size, list(flags), *xs)
        return list(outs)
    outs, moved = jvp_flat(outer, primals, tangents)
    return [*outs, *map(instantiate, flagged(moved, mask))], [*marks, *flagged(marks, mask)]


def _rule_over(rule: Rule, size: int, pairs: Sequence[tuple[Any, bool, Any, bool]],
               mask: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """The same where either primals or tangents are batched, as in jacfwd: a batch of what the
    rule gives of operands that are not batched."""
    real = [not is_zero(t) for _, _, t, _ in pairs]
    flat = [p for p, *_ in pairs] + [t for _, _, t, _ in pairs if not is_zero(t)]
    axes = front_axes([f for _, f, *_ in pairs] + flagged([g for *_, g in pairs], real))

    def one(*xs: Any) -> list[Any]:
        some = iter(xs[len(pairs):])
        ts = [next(some) if r else t for r, (_, _, t, _) in zip(real, pairs)]
        outs, _ = _derived_rule(rule, size, [False] * len(pairs), xs[:len(pairs)], ts, mask)
        return outs
    outs, found = vmap_flat(one, size, flat, axes, named.get())
    return mapped_to_front(outs, found), [d is not None for d in found]


def _vmap_linearize(nonzero: Sequence[bool], primals: Sequence[Any], *, call_jaxpr: Any, rule: Rule,
                    num_consts: int) -> Any:
    """Values by the function with its rule, the linear part by what it computes."""
    outs = custom_vmap_p.bind(*primals, call_jaxpr=call_jaxpr, rule=rule, num_consts=num_consts)
    _, mask, program = linearize_flat(lambda *xs: run(call_jaxpr, xs), primals, nonzero)

    def apply(*tangents: Any) -> list[Any]:
        return unmask(replay(program, *tangents), mask, outs)

    return outs, apply


def _vmap_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, call_jaxpr: Any,
                rule: Rule, num_consts: int) -> Any:
    if any(d is not None for d in dims[:num_consts]):  # a closed-over value is mapped
        outs, axes = vmap_flat(lambda *xs: run(call_jaxpr, xs), size, args, dims, named.get())
        return outs, axes
    own = mapped_to_front(args, dims)[num_consts:]
    outs, batched = rule(size, [d is not None for d in dims[num_consts:]], *own)
    return list(outs), [0 if b else None for b in batched]


custom_vmap_p.jvp, custom_vmap_p.linearize = _vmap_jvp, _vmap_linearize
custom_vmap_p.batch = _vmap_batch
