"""Programs whose checks are values: what experimental.checkify makes of a traced function.

`checked(p, errors)` is the Program of p's inputs that gives, before p's results, a code (0: nothing
failed) and what messages need; `sites` says what codes mean.  Calls, branches and loops hand these
on; the first failure is kept, and one of the user's `check`s goes before those that were put in.
Start reading at `_Run.equation`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.evaluate import each, literal_value
from calque.core.primitive import Primitive, registry
from calque.core.program import Equation, Program, Var, inner_of
from calque.core.trace import Tracer
from calque.core.types import Function, Params, Shape
from calque.dispatch.array import from_numpy
from calque.lax import dynamic_index_in_dim
from calque.numpy import argmax, array, asarray, broadcast_to, isnan, moveaxis, where, zeros
from calque.primitives import control
from calque.primitives import shard_map as shards
from calque.primitives.call import call
from calque.primitives.checkpoint import bind as bind_checkpoint
from calque.primitives.custom import Rule, SymbolicZero, custom_jvp_p, custom_vjp_p
from calque.primitives.scatter import window_sizes
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import closed, replay, stage

# What NaNs are looked for behind: in JAX those that compute, not those that move or choose.
COMPUTES = frozenset("""
    acos acosh add add_any asin asinh atan atan2 atanh cbrt conv_general_dilated cos cosh
    cumlogsumexp cumprod cumsum digamma div dot_general erf erf_inv erfc exp expm1 fft igamma
    igammac integer_pow lgamma log log1p logistic mul pad polygamma pow reduce_prod reduce_sum rem
    regularized_incomplete_beta rsqrt scatter scatter-add scatter-mul sin
    sinh sqrt sub tan tanh zeta""".split())  # noqa: SIM905


class JaxException(Exception):
    """Base of what a check may find.

    Example:
      >>> from calque.experimental import checkify
      >>> [c.__name__ for c in checkify.user_checks]
      ['FailedCheckError']
    """


class JaxRuntimeError(ValueError):
    """What a failed check raises: `check`, `check_error`, `Error.throw`.

    Example:
      >>> from calque.experimental import checkify
      >>> issubclass(checkify.JaxRuntimeError, ValueError)
      True
    """


class FailedCheckError(JaxException):
    """A check of the user's failed."""


class NaNError(JaxException):
    """An operation gave NaN."""


class OOBError(JaxException):
    """An index was outside."""


class DivisionByZeroError(JaxException):
    """A divisor was zero."""


@dataclasses.dataclass(frozen=True)
class Site:
    """A place where something may fail: what it is, its message, the structure of its values."""

    kind: type[JaxException]
    text: str
    tree: Any = None
    again: tuple[Site, ...] = ()  # of check_error: the sites of the error that is checked
    debug: bool = False  # no matter where nobody takes it

    def message(self, values: Sequence[Any]) -> str:
        """What failed, in words."""
        if self.again:
            code, rest = int(values[0]), list(values[1:])
            return say(self.again, code, split(self.again, rest))
        if self.kind is OOBError:
            index, axis = (int(v) for v in values)
            shape: Any = self.tree
            return (f"out-of-bounds indexing for array of shape {shape}: index {index} is out of "
                    f"bounds for axis {axis} with size {shape[axis]}. ")
        if self.kind is not FailedCheckError:
            return self.text
        args, kwargs = self.tree.unflatten([from_numpy(np.asarray(v)) for v in values])
        return f"{self.text.format(*args, **kwargs)} (`check` failed)"

    def counts(self) -> int:
        """How many values belong to it."""
        if self.again:
            return 1 + values_of(self.again)
        if self.kind is OOBError:
            return 2
        return self.tree.num_leaves if self.kind is FailedCheckError else 0


def values_of(sites: Sequence[Site]) -> int:
    """How many values belong to them."""
    return sum(s.counts() for s in sites)


def split(sites: Sequence[Site], values: Sequence[Any]) -> list[list[Any]]:
    """The values of each site."""
    rest = iter(values)
    return [[next(rest) for _ in range(s.counts())] for s in sites]


def kind_of(sites: Sequence[Site], code: int) -> type[JaxException]:
    """The class of what a code means."""
    return sites[abs(code) - 1].kind


def say(sites: Sequence[Site], code: int, values: Sequence[Sequence[Any]]) -> str:
    """The message of a code."""
    i = abs(code) - 1
    return sites[i].message([np.asarray(v) for v in values[i]])


# ---- the primitive of `check`: (predicate, *values) -> (); site
check_p = Primitive("check", multiple_results=True, differentiable=False, effects=lambda _: True,
                    client=True)


def _abstract(*_: ShapedArray, site: Site) -> list[ShapedArray]:
    return []


def _now(pred: Any, *values: Any, site: Site) -> list[Any]:
    if not site.debug and not isinstance(pred, Tracer) and not bool(pred):
        raise JaxRuntimeError(site.message([np.asarray(_data(v)) for v in values]))
    return []


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, site: Site) -> Any:
    """All have to hold; the values are those of the last that does not, as in JAX."""
    pred, *values = args
    if dims[0] is None:
        last: Any = size - 1
    else:
        pred = moveaxis(pred, dims[0], 0)
        last = size - 1 - argmax(~pred[::-1])
        pred = pred.all()
    values = [v if d is None else dynamic_index_in_dim(v, last, d, keepdims=False)
              for v, d in zip(values, dims[1:])]
    return check_p.bind(pred, *values, site=site), []


def _unchecked(*avals: ShapedArray, site: Site) -> Program:
    if site.debug:
        return Program([Var(a) for a in avals], [], [], name="debug_check")
    raise ValueError(explain(
        "Cannot abstractly evaluate a check in jit, a loop or a branch that is not functionalized: "
        "no checkify.checkify is around it to carry its error out.",
        fix="jit the checked function: jax.jit(checkify.checkify(f)); or use debug_check."))


check_p.abstract, check_p.inline, check_p.batch = _abstract, _now, _batch
check_p.program = _unchecked


# ---- Programs
Checked = tuple[Program, tuple[Site, ...]]


def checked(p: Program, errors: frozenset[Any]) -> Checked:
    """(Program of p's inputs -> (code, values of all sites, p's results), sites)."""
    def make() -> Checked:
        found: list[tuple[Site, ...]] = []

        def run(*args: Any) -> list[Any]:
            state = _Run(errors)
            outs = state.program(p, args)
            found.append(tuple(state.sites))
            return [*state.flat(), *outs]

        return stage(run, p.in_avals, f"checked_{p.name}"), found[0]

    return p.derived(("checked", errors), make)


class _Run:
    """Equations run one by one, with what failed so far."""

    def __init__(self, errors: frozenset[Any]) -> None:
        self.errors = errors
        self.code: Any = np.int32(0)
        self.sites: list[Site] = []
        self.values: list[Any] = []

    def flat(self) -> list[Any]:
        return [array(self.code, np.int32), *self.values]

    def program(self, p: Program, args: Sequence[Any]) -> list[Any]:
        return each(p, [*p.consts, *args], literal_value, self.equation)

    def equation(self, e: Equation, args: list[Any]) -> Sequence[Any]:
        prim, params = e.primitive, e.params
        if prim is check_p:
            if params["site"].kind in self.errors or params["site"].again:
                self.failed(params["site"], ~asarray(args[0]), args[1:])
            return []
        within = WITHIN.get(prim.name)
        if within is not None:
            outs: Sequence[Any] = within(self, args, params)
            return outs
        if any(map(_has_checks, inner_of(params))):
            raise NotImplementedError(explain(
                f"checkify: a check inside {prim.name} is not handed on.",
                fix="check its arguments or its results."))
        self.before(prim, args, params)
        out = prim.bind(*args, **params)
        outs = out if prim.multiple_results else [out]
        if NaNError in self.errors and prim.name in COMPUTES:
            self.nans(prim, outs)
        return outs

    def failed(self, site: Site, failed: Any, values: Sequence[Any]) -> None:
        self.sites.append(site)
        count = len(self.sites)
        user = issubclass(site.kind, FailedCheckError) or bool(site.again)
        free = self.code <= 0 if user else self.code == 0
        self.code = where(failed & free, np.int32(count if user else -count), self.code)
        self.values += [_data(v) for v in values]

    def merge(self, sites: Sequence[Site], code: Any, values: Sequence[Any]) -> None:
        """What a part that began without failures found."""
        self.code = _first(self.code, _moved(code, len(self.sites)))
        self.sites += sites
        self.values += values

    # ---- the checks that are put in
    def before(self, prim: Primitive, args: Sequence[Any], params: Params) -> None:
        if prim.name == "div" and DivisionByZeroError in self.errors:
            zero = (asarray(args[1]) == 0).any()
            self.failed(Site(DivisionByZeroError, "division by zero"), zero, [])
        if OOBError in self.errors and prim.name in POSITIONS:
            self.positions(shape_of(args[0]), *POSITIONS[prim.name](args, params))

    def positions(self, shape: Shape, index: Any, axes: Sequence[int],
                  sizes: Sequence[int]) -> None:
        """index: (..., n) positions along `axes` of windows with these sizes."""
        if not axes or 0 in shape_of(index):
            return
        ends = np.array([shape[d] - n for d, n in zip(axes, sizes)]).reshape(
            (1,) * (ndim_of(index) - 1) + (-1,))
        wrong = ((index < 0) | (index > ends)).ravel()
        first = argmax(wrong)
        axis = asarray(np.array(axes, np.int32))[first % len(axes)]
        self.failed(Site(OOBError, "", shape), wrong.any(), [index.ravel()[first], axis])

    def nans(self, prim: Primitive, outs: Sequence[Any]) -> None:
        for o in outs:
            dtype = dtype_of(o)
            if not dtypes.is_key(dtype) and dtypes.is_inexact(dtype):
                self.failed(Site(NaNError, f"nan generated by primitive: {prim.name}."),
                            isnan(o).any(), [])


def _data(x: Any) -> Any:
    """An array; of a key its words."""
    return registry["random_unwrap"].bind(x) if dtypes.is_key(dtype_of(x)) else asarray(x)


def _has_checks(p: Program) -> bool:
    return any(e.primitive is check_p or any(map(_has_checks, e.inner))
               for e in p.equations)


def _moved(code: Any, by: int) -> Any:
    """A code among sites before which there are `by` others."""
    if not by:
        return code
    return where(code > 0, code + by, where(code < 0, code - by, code))


def _first(old: Any, new: Any) -> Any:
    """The code that stays: the older one, the user's before others."""
    return where((old == 0) | ((old < 0) & (new > 0)), new, old)


# ---- indices of windows, as (positions, axes, sizes of windows)
def _of_slice(sizes: Sequence[int], starts: Sequence[Any]) -> Any:
    known = [i for i, s in enumerate(starts) if not (isinstance(s, (int, np.integer)) and s == 0)]
    index = [asarray(starts[i]) for i in known]
    together = asarray([]) if not known else array(index)
    return together, known, [sizes[i] for i in known]


def _dynamic_slice(args: Sequence[Any], params: Params) -> Any:
    return _of_slice(params["slice_sizes"], args[1:])


def _dynamic_update_slice(args: Sequence[Any], params: Params) -> Any:
    return _of_slice(shape_of(args[1]), args[2:])


def _gather(args: Sequence[Any], params: Params) -> Any:
    axes = params["dimension_numbers"].start_index_map
    return asarray(args[1]), axes, [params["slice_sizes"][d] for d in axes]


def _scatter(args: Sequence[Any], params: Params) -> Any:
    numbers = params["dimension_numbers"]
    axes = numbers.scatter_dims_to_operand_dims
    windows = window_sizes((1,) * ndim_of(args[0]), numbers, shape_of(args[2]))
    return asarray(args[1]), axes, [windows[d] for d in axes]


POSITIONS: dict[str, Function] = {
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather, **{f"scatter{n}": _scatter for n in (
        "", "-add", "_add", "-mul", "_mul", "-min", "_min", "-max", "_max", "-sub", "_sub",
        "-apply", "_apply")}}


# ---- primitives that hold Programs: (state, operands, params) -> results
def _call(state: _Run, args: list[Any], program: Program, bind: Any) -> list[Any]:
    p, sites = checked(program, state.errors)
    if not sites:
        return bind(program, args)
    return _split(state, sites, bind(p, args))


def _split(state: _Run, sites: Sequence[Site], outs: Sequence[Any]) -> list[Any]:
    n = 1 + values_of(sites)
    state.merge(sites, outs[0], outs[1:n])
    return list(outs[n:])


def _jit(state: _Run, args: list[Any], params: Params) -> list[Any]:
    return _call(state, args, params["jaxpr"], lambda p, a: call(p, a, params["name"]))


def _checkpoint(state: _Run, args: list[Any], params: Params) -> list[Any]:
    rest = {k: v for k, v in params.items() if k != "jaxpr"}
    return _call(state, args, params["jaxpr"], lambda p, a: bind_checkpoint(p, a, **rest))


def _cond(state: _Run, args: list[Any], params: Params) -> list[Any]:
    pairs = [checked(b, state.errors) for b in params["branches"]]
    every = [s for _, sites in pairs for s in sites]
    if not every:
        return control.cond(args[0], args[1:], params["branches"])
    kinds = [list(p.out_avals[1:1 + values_of(sites)]) for p, sites in pairs]
    before = [sum(len(s) for _, s in pairs[:i]) for i in range(len(pairs))]

    def padded(i: int) -> Program:
        p, count = pairs[i][0], len(kinds[i])

        def run(*xs: Any) -> list[Any]:
            code, *rest = replay(p, *xs)
            values = [rest[:count] if j == i else [zeros(a.shape, a.dtype) for a in avals]
                      for j, avals in enumerate(kinds)]
            return [_moved(code, before[i]), *[asarray(v) for part in values for v in part],
                    *rest[count:]]
        return stage(run, p.in_avals, p.name)

    outs = control.cond(args[0], args[1:], [_strong(padded(i), 1 + sum(map(len, kinds)))
                                            for i in range(len(pairs))])
    return _split(state, every, outs)


def _strong(p: Program, count: int) -> Program:
    """p with its first results not weak, so that branches and iterations agree."""
    def run(*xs: Any) -> list[Any]:
        outs = replay(p, *xs)
        return [*[_as_strong(o) for o in outs[:count]], *outs[count:]]
    return stage(run, p.in_avals, p.name)


def _as_strong(x: Any) -> Any:
    a = aval_of(x)
    return array(x, a.dtype) if a.weak_type else x


class _Carried:
    """The state of a loop: a code and the values of the body's sites."""

    def __init__(self, avals: Sequence[ShapedArray], shape: Shape = ()) -> None:
        self.avals, self.shape = [a.strong() for a in avals], shape
        self.count = 1 + len(self.avals)

    def start(self) -> list[Any]:
        return [zeros(self.shape, np.int32),
                *[zeros(self.shape + a.shape, a.dtype) for a in self.avals]]

    def next(self, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
        """The state after one more part, whose own is `new`."""
        code = _first(old[0], new[0])
        changed = code != old[0]
        return [code, *[where(changed.reshape(changed.shape + (1,) * a.ndim),
                              broadcast_to(_as_strong(n), self.shape + a.shape), o)
                        for a, o, n in zip(self.avals, old[1:], new[1:])]]

    def end(self, final: Sequence[Any]) -> list[Any]:
        """One code and its values, of a batch of loops."""
        if not self.shape:
            return list(final)
        code, last = final[0].ravel(), argmax(final[0].ravel() != 0)
        return [code[last], *[v.reshape((-1, *a.shape))[last]
                              for a, v in zip(self.avals, final[1:])]]


def _scan(state: _Run, args: list[Any], params: Params) -> list[Any]:
    p, sites = checked(params["jaxpr"], state.errors)
    options = {k: params[k] for k in ("length", "reverse", "unroll")}
    k, m = params["num_consts"], params["num_consts"] + params["num_carry"]
    body: Program = params["jaxpr"]
    if not sites:
        return control.scan(body, args[:k], args[k:m], args[m:], **options)
    carried = _Carried(p.out_avals[1:1 + values_of(sites)])
    n = carried.count

    def run(*xs: Any) -> list[Any]:
        own = [*xs[:k], *xs[k + n:]]
        outs = replay(p, *own)
        return [*carried.next(xs[k:k + n], outs[:n]), *outs[n:]]

    start = carried.start()
    avals = [*p.in_avals[:k], *[aval_of(s) for s in start], *p.in_avals[k:]]
    outs = control.scan(stage(run, avals, p.name), args[:k], [*start, *args[k:m]], args[m:],
                        **options)
    state.merge(sites, outs[0], outs[1:n])
    return outs[n:]


def _while(state: _Run, args: list[Any], params: Params) -> list[Any]:
    """The condition's checks are made before the loop and after each step."""
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    k, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    cc, bc, init = args[:k], args[k:m], args[m:]
    p, sites = checked(body, state.errors)
    q, more = checked(cond, state.errors)
    every = [*sites, *more]
    if not every:
        return while_loop(cond, cc, body, bc, init)
    counts = [values_of(sites), values_of(more)]
    avals = [*p.out_avals[1:1 + counts[0]], *q.out_avals[1:1 + counts[1]]]
    carried = _Carried(avals, cond.out_avals[0].shape)
    n = carried.count

    def of_cond(own: Sequence[Any], at: Sequence[Any]) -> list[Any]:
        code, *rest = replay(q, *own, *at)
        blank = [zeros(a.shape, a.dtype) for a in avals[:counts[0]]]
        return [_moved(code, len(sites)), *blank, *rest[:counts[1]]]

    def run(*xs: Any) -> list[Any]:
        own_cc, own_bc, old, at = xs[:k], xs[k:m], xs[m:m + n], xs[m + n:]
        code, *rest = replay(p, *own_bc, *at)
        blank = [zeros(a.shape, a.dtype) for a in avals[counts[0]:]]
        now = carried.next(old, [code, *rest[:counts[0]], *blank])
        after = rest[counts[0]:]
        if more:
            now = carried.next(now, of_cond(own_cc, after))
        return [*now, *after]

    start = carried.start()
    if more:
        start = carried.next(start, of_cond(cc, init))
    kinds = [aval_of(s) for s in start]
    whole = stage(run, [*cond.in_avals[:k], *body.in_avals[:m - k], *kinds,
                        *body.in_avals[m - k:]], p.name)
    test = stage(lambda *xs: replay(q, *xs[:k], *xs[k + n:])[-1:],
                 [*cond.in_avals[:k], *kinds, *cond.in_avals[k:]], cond.name)
    outs = while_loop(test, cc, whole, [*cc, *bc], [*start, *init])
    final = carried.end(outs[:n])
    state.merge(every, final[0], final[1:])
    return outs[n:]


def _custom(state: _Run, args: list[Any], params: Params, prim: Primitive,
            rules: Callable[..., dict[str, Any]]) -> list[Any]:
    """A function with rules of its own keeps them; what its rules compute is not checked."""
    fun: Program = params["call_jaxpr"]
    p, sites = checked(fun, state.errors)
    if not sites:
        return prim.bind(*args, **params)
    p, consts = closed(p)
    n = 1 + values_of(sites)
    k = params["num_consts"]
    held = [*consts, *args[:k]]

    def state_of(primals: Sequence[Any]) -> list[Any]:
        return replay(p, *held, *primals)[:n]

    made = rules(params, n, state_of)
    outs = prim.bind(*held, *args[k:], **{
        **params, "call_jaxpr": p, "num_consts": len(held), **made})
    return _split(state, sites, outs)


def _custom_jvp(state: _Run, args: list[Any], params: Params) -> list[Any]:
    def rules(params: Params, n: int, state_of: Any) -> dict[str, Any]:
        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            first = state_of(primals)
            outs, moved = params["jvp"](primals, tangents)
            still = [SymbolicZero(aval_of(f).tangent()) for f in first]
            return [*first, *outs], [*still, *moved]
        return {"jvp": Rule(jvp)}
    return _custom(state, args, params, custom_jvp_p, rules)


def _custom_vjp(state: _Run, args: list[Any], params: Params) -> list[Any]:
    def rules(params: Params, n: int, state_of: Any) -> dict[str, Any]:
        def forward(primals: Sequence[Any], nonzero: Sequence[bool]) -> Any:
            first = state_of(primals)
            outs, residuals = params["fwd"](primals, nonzero)
            return [*first, *outs], residuals

        def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> Any:
            return params["bwd"](residuals, cts[n:])
        return {"fwd": Rule(forward), "bwd": Rule(backward)}
    return _custom(state, args, params, custom_vjp_p, rules)


def _shard_map(state: _Run, args: list[Any], params: Params) -> list[Any]:
    """Each device has a state of its own; they leave joined along a new axis."""
    mesh, manual, vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    inner: Program = params["jaxpr"]
    names = shards.order(mesh, manual)
    with shards.inside(mesh, manual, vma):
        p, sites = checked(inner, state.errors)
        n = 1 + values_of(sites)

        def row(x: Any) -> Any:
            missing = tuple(a for a in names if vma and a not in aval_of(x).vma)
            x = asarray(x)[None]
            return registry["pvary"].bind(x, axes=missing) if missing else x

        def run(*xs: Any) -> list[Any]:
            outs = replay(p, *xs)
            return [*map(row, outs[:n]), *outs[n:]]

        if sites:
            inner = stage(run, p.in_avals, p.name)
    specs = [shards.P(names)] * n if sites else []
    outs = shards.bind(inner, args, **{k: v for k, v in params.items() if k not in (
        "jaxpr", "out_specs")}, out_specs=(*specs, *params["out_specs"]))
    if not sites:
        return outs
    failing = argmax(outs[0] != 0)
    return _split(state, sites, [*[o[failing] for o in outs[:n]], *outs[n:]])


def _pallas(state: _Run, args: list[Any], params: Params) -> list[Any]:
    program = registry["pallas_call"].program
    assert program is not None
    return _jit(state, args, {"jaxpr": program(**params), "name": params["name"] or "pallas_call"})


def _partitioned(state: _Run, args: list[Any], params: Params) -> list[Any]:
    return _jit(state, args, {"jaxpr": params["jaxpr"], "name": params["jaxpr"].name})


WITHIN: dict[str, Function] = {
    "jit": _jit, "checkpoint": _checkpoint, "cond": _cond, "scan": _scan, "while": _while,
    "pallas_call": _pallas, "shard_map": _shard_map, "custom_partitioning": _partitioned,
    "custom_jvp_call": _custom_jvp, "custom_vjp_call": _custom_vjp}
