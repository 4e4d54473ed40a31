"""Staging: run a function on StageTracers and record a Program (core/evaluate replays one).

`stage(f, avals)` -> (Program, whatever f returned besides its flat outputs).  Values of enclosing
traces and concrete arrays become consts of the Program.  Start reading at `StageTrace.process`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import checker, dtypes, leaks
from calque.core.avals import (
    NOWHERE,
    Reduced,
    ShapedArray,
    Unreduced,
    aval_of,
    axes_of,
    varying_of,
)
from calque.core.config import config
from calque.core.dims import Dim
from calque.core.dtypes import check_fits, plain_number
from calque.core.errors import explain
from calque.core.evaluate import literal_value as literal_value
from calque.core.evaluate import replay as replay
from calque.core.primitive import Primitive, registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.refs import Frame
from calque.core.source import called, here
from calque.core.trace import Trace, Tracer, as_current, escaped_tracer_error, scopes
from calque.core.types import Params
from calque.transforms import explicit, sums

# positions of inputs -> how these arguments are marked as static, or ""
Marking = Callable[[Sequence[int]], str]


class StageTracer(Tracer):
    """A variable of a Program being recorded.

    Example:
      >>> import calque
      >>> from calque.interpreters import partial_eval as pe
      >>> seen = []
      >>> _ = calque.jit(lambda x: seen.append(x) or x)(1.0)
      >>> isinstance(seen[0], pe.DynamicJaxprTracer)
      True
    """

    __slots__ = ("_var",)
    shown = "JitTracer"

    def __init__(self, trace: StageTrace, var: Var) -> None:
        self._trace, self._var = trace, var

    @property
    def aval(self) -> ShapedArray:
        """Its type."""
        return self._var.aval


SMALL = 1 << 14  # bytes of captured arrays that are compared


class StageTrace(Trace):
    """Records every primitive as an equation."""

    __slots__ = ("equations", "captured", "name", "frame", "inputs", "marking", "equal")
    kind = "stage"

    def __init__(self, name: str = "main", parent: Trace | None = None,
                 frame: Frame | None = None) -> None:
        super().__init__(parent)
        self.name, self.frame = name, frame
        self.inputs: list[StageTracer] = []
        self.marking: Marking | None = None
        self.equations: list[Equation] = []
        self.captured: dict[int, tuple[Var, Any]] = {}  # id -> (variable, value kept alive)
        self.equal: dict[Any, Var] = {}  # what is in small arrays -> variable

    def new(self, aval: ShapedArray) -> StageTracer:
        return StageTracer(self, Var(aval))

    def new_arg(self, aval: ShapedArray, source_info: Any = None) -> StageTracer:
        """One more input behind those that there are (brainstate: what its functions read)."""
        made = self.new(aval)
        self.inputs.append(made)
        return made

    def atom(self, x: Any, prim: Any = "return") -> Atom:
        """The variable or literal that stands for x in this program."""
        if type(x) is StageTracer and x._trace is self:
            if not self.open:
                raise escaped_tracer_error(x, prim)
            return x._var
        if isinstance(x, (bool, int, float, complex, np.generic)):
            check_fits(x)
            return Literal(plain_number(x), aval_of(x))
        if isinstance(x, np.ndarray) and x.ndim == 0:
            return Literal(x[()], aval_of(x))
        if isinstance(x, Dim):
            with as_current(self):
                return self.atom(x.dimension_as_value())
        if isinstance(x, Tracer) and not x._trace.open:
            raise escaped_tracer_error(x, prim)
        found = self.captured.get(id(x))
        if found is None:
            found = self.captured[id(x)] = (self._variable(x), x)
        return found[0]

    def _variable(self, x: Any) -> Var:
        """The variable of what is captured; of small arrays that are equal it is one: a function
        that Python calls fifty times makes arrays of its NumPy arrays each time."""
        made, key = Var(aval_of(x)), _content(x)
        return made if key is None else self.equal.setdefault(key, made)

    def process(self, prim: Primitive, args: Sequence[Any], params: Params) -> Any:
        if prim.staged is not None:
            with as_current(self):
                args, params = prim.staged(*args, **params)
        atoms = tuple(self.atom(a, prim) for a in args)
        vma, plain = NOWHERE, True
        for a in atoms:
            if a.aval.plain is not a.aval:  # inside shard_map, or over Explicit axes
                atoms, vma = self._level(prim, atoms, params)
                plain = False
                break
        out = prim.rule("abstract")(*[a.aval for a in atoms], **params)
        avals = out if prim.multiple_results else (out,)
        if vma or prim.varying is not None or (prim.name == "cond" and not plain):
            avals = marked(prim, avals, vma, params)
        if not plain or prim.name == "sharding_constraint" or prim.name == "shard_map":
            avals = explicit.typed(prim, [a.aval for a in atoms], avals, params)
        tracers = [StageTracer(self, Var(a)) for a in avals]
        self.equations.append(Equation(
            prim, atoms, tuple(t._var for t in tracers), params, here(), scopes.get()))
        return tracers if prim.multiple_results else tracers[0]

    def _level(self, prim: Primitive, atoms: tuple[Atom, ...], params: Params
               ) -> tuple[tuple[Atom, ...], frozenset[Any]]:
        """Operands that all vary over the axes that one of them varies over, and these axes."""
        if prim.name == "cond":
            first = params["branches"][0]
            wanted = [atoms[0].aval.vma, *[v.aval.vma for v in first.inputs]]
            return self._varied(atoms, wanted), atoms[0].aval.vma
        if prim.higher_order:
            inner = params.get("jaxpr", params.get("call_jaxpr"))
            if not isinstance(inner, Program) or len(inner.inputs) != len(atoms):
                return atoms, frozenset().union(*[a.aval.vma for a in atoms])
            wanted = [v.aval.vma for v in inner.inputs]
            if prim.name == "shard_map":
                mine = params["newly_manual_axes"]
                wanted = [frozenset(n for n in w if getattr(n, "axis", n) not in mine)
                          for w in wanted]
        else:
            every = varying_of(frozenset().union(*[a.aval.vma for a in atoms]))
            if prim.varying is not None and "axes" in params and prim.name not in _CASTS:
                every |= set(params["axes"])
            if not config.jax_auto_pcast and prim.name not in _CASTS:
                _check_alike(prim, atoms)
            level = self._varied(atoms, [every] * len(atoms)) if every else atoms
            avals = [a.aval for a in level]
            if not sums.any_of(avals) or prim.varying is not None:
                return level, frozenset().union(*[a.vma for a in avals])
            unreduced, reduced = sums.of_results(prim, avals, params)
            return level, every | _marks(unreduced, reduced, avals)
        vma = frozenset().union(*wanted)
        return self._varied(atoms, wanted) if vma else atoms, vma

    def _varied(self, atoms: tuple[Atom, ...], wanted: Sequence[frozenset[Any]]
                ) -> tuple[Atom, ...]:
        """Values that vary over these axes, too."""
        level: list[Atom] = []
        for a, w in zip(atoms, wanted):
            vma = a.aval.vma
            reduced, summands = axes_of(vma, Reduced) & w, axes_of(vma, Unreduced) & w
            if summands:
                raise ValueError(explain(
                    f"pvary cannot accept args which are unreduced. Got {a.aval.short()} and axes="
                    f"{set(summands)}", where=str(here()), fix="lax.psum the value over them."))
            if reduced:
                a = self._cast("reduced_vary_cast", a, reduced)
            if more := varying_of(w) - a.aval.vma:
                a = self._cast("pvary", a, more)
            if more := axes_of(w, Reduced) - axes_of(a.aval.vma, Reduced):
                a = self._cast("preduced", a, more)
            level.append(a)
        return tuple(level)

    def _cast(self, name: str, a: Atom, axes: frozenset[Any]) -> Atom:
        """A value as another kind along axes (primitives/casts)."""
        prim, params = registry[name], {"axes": tuple(sorted(axes, key=str))}
        assert prim.varying is not None
        out = Var(a.aval.marked(a.aval.placement, prim.varying(a.aval.vma, params)))
        self.equations.append(Equation(prim, (a,), (out,), params, here(), scopes.get()))
        return out

    def how_static(self, x: Any) -> str:
        if self.marking is None or x._trace is not self:
            return ""
        needed = {id(x._var)}
        for eq in reversed(self.equations):
            if not needed.isdisjoint(map(id, eq.outputs)):
                needed.update(map(id, eq.inputs))
        return self.marking([i for i, t in enumerate(self.inputs) if id(t._var) in needed])

    def program(self, inputs: Sequence[StageTracer], outputs: Sequence[Any]) -> Program:
        """What was recorded, with these inputs and outputs; the trace is closed."""
        atoms = [self.atom(o) for o in outputs]
        self.close()
        pairs = list({v: (v, c) for v, c in reversed(self.captured.values())}.values())[::-1]
        made = Program([t._var for t in inputs], self.equations, atoms,
                       [v for v, _ in pairs], [c for _, c in pairs], self.name)
        return checker.checked(made, f"after staging {self.name}")


def _content(x: Any) -> Any:
    """What is in a captured array, hashable, with its type; None where that is not known at once,
    and of large ones."""
    aval = aval_of(x)
    if isinstance(x, Tracer) or aval.placement is not None or aval.vma or (
            dtypes.is_key(aval.dtype) or not 0 < aval.nbytes <= SMALL):
        return None
    if isinstance(x, np.ndarray):
        data: Any = x.tobytes()
    else:
        ask = getattr(x, "_content", None)
        data = None if ask is None else ask()
    return None if data is None else (aval.shape, aval.dtype, aval.weak_type, data)


_CASTS = frozenset((
    "pvary", "preduced", "reduced_invary_cast", "reduced_vary_cast", "vary_unreduced_cast",
    "invary_unreduced_cast", "unreduced_psum", "unreduced_reduce_scatter"))


def _check_alike(prim: Primitive, atoms: Sequence[Atom]) -> None:
    """jax_auto_pcast is off: operands that vary over other axes are refused."""
    kinds = [varying_of(a.aval.vma) for a in atoms if isinstance(a, Var)]
    if len(set(kinds)) > 1:
        said = ", ".join("{" + ", ".join(sorted(map(str, k))) + "}" for k in kinds)
        raise ValueError(explain(
            f"Primitive {prim.name} requires varying manual axes to match, but got [{said}].",
            where=str(here()), fix="mark the value that varies less, calque.lax.pcast(x, axes, "
            "to='varying'), or leave auto_pcast on."))


def _marks(unreduced: frozenset[Any], reduced: frozenset[Any], avals: Sequence[ShapedArray]
           ) -> frozenset[Any]:
    """What of these axes shard_map maps, as an aval has it."""
    mapped = frozenset().union(*[
        axes_of(a.vma, kind) for a in avals for kind in (Unreduced, Reduced)])
    return frozenset((*map(Unreduced, unreduced & mapped), *map(Reduced, reduced & mapped)))


def marked(prim: Primitive, avals: Sequence[ShapedArray], vma: frozenset[Any],
           params: Params) -> Sequence[ShapedArray]:
    """The types of results with the axes over which they vary, inside shard_map."""
    if prim.varying is not None:
        vma = prim.varying(vma, params)
    elif prim.higher_order:  # as their inner programs say
        if prim.name == "cond":  # as a branch says, and as the choice varies
            every = [b.out_avals for b in params["branches"]]
            return [a.marked(a.placement, vma.union(*[outs[i].vma for outs in every]))
                    for i, a in enumerate(avals)]
        return avals
    return [a.marked(a.placement, vma) for a in avals]


def stage(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray],
          name: str = "main", fun: Any = None, frame: Frame | None = None,
          marking: Marking | None = None) -> Program:
    """Record f, a function of flat arrays that returns a sequence of arrays; fun: the user's
    function in it, and marking, for messages; frame: references that it uses are further inputs."""
    trace = StageTrace(name, frame=frame)
    trace.source, trace.marking = called(fun), marking
    inputs = trace.inputs = [trace.new(a) for a in avals]
    token = scopes.set(())  # those around the Program are of the equation that holds it
    try:
        with as_current(trace):
            outputs = list(f(*inputs))
        made = trace.program(inputs if frame is None else [*inputs, *frame.inputs], outputs)
    finally:
        scopes.reset(token)
        trace.close()
    trace.inputs, trace.marking = [], None
    if config.jax_check_tracer_leaks:
        del inputs, outputs
        if frame is not None:
            frame.forget()
        leaks.check(trace)
    return made


def closed(p: Program) -> tuple[Program, list[Any]]:
    """(program without consts, the values to pass first): for higher-order primitives."""
    return p.consts_as_inputs(), list(p.consts)
