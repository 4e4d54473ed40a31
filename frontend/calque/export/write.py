"""Program -> StableHLO that any reader of it runs: one function per Program, the rules of `forms`.

What lowering/ writes is for IREE alone; here every primitive becomes operations of StableHLO, or is
an error that names it.  Start reading at `module_of`.
"""
from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import words
from calque.core.avals import ShapedArray, same_type
from calque.core.client import ClientPrimitive
from calque.core.dims import Dim, is_static, scope_of
from calque.core.errors import explain
from calque.core.lists import types_of
from calque.core.program import (
    Atom,
    Equation,
    Literal,
    Program,
    Var,
    eliminate_dead_code,
)
from calque.core.types import Params
from calque.export import client_rules
from calque.export.build import I32, PortableBuilder, ints
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import Block, Enum, Func, Module, Number, Op
from calque.export.solve import Condition, conditions, plan, unsolved
from calque.lowering.emit import registry
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import physical
from calque.lowering.passes.clients import closed_by_constants, const_p
from calque.lowering.passes.hoist import CALLS
from calque.primitives.generator import platform_index_p


@dataclass(frozen=True, slots=True)
class Use(registry.Use):
    """A use of a primitive that is written by a Writer."""

    w: Writer

    @property
    def b(self) -> PortableBuilder:
        return self.w.b


Rule = Callable[[Use], Any]
rules: dict[str, Rule] = {}
PLATFORM_INDEX = {"jax.global_constant": "_platform_index"}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the portable form of primitives."""
    def register(f: Rule) -> Rule:
        for name in names:
            assert name not in rules, name
            rules[name] = f
        return f
    return register


def kept_inputs(p: Program) -> tuple[int, ...]:
    """Positions of the inputs that the results need, and of those that have symbolic sizes."""
    live = eliminate_dead_code(p)
    used = live.used()
    return tuple(i for i, v in enumerate(p.inputs) if v in used or not is_static(v.aval.shape))


def module_of(p: Program, name: str, kept: Sequence[int], platforms: Sequence[str] = ("cpu",)
              ) -> Module:
    """The module whose `main` takes the kept inputs and gives the outputs.

    Args:
      p: captured arrays are NumPy arrays; they are written into the module.
      platforms: where it may run; of several a first argument says which one does.

    Raises:
      UnsupportedOperationError: a primitive has no portable form.
    """
    p = eliminate_dead_code(p)
    w = Writer(tuple(platforms))
    platform_index = len(platforms) > 1
    with w.b.inside(Block()) as block:
        if platform_index:
            (w.platform_index,) = w.b.arguments(block, [((), np.dtype("i4"))])
        specs = [physical(p.inputs[i].aval) for i in kept]
        values = w.b.arguments(block, types_of(specs))
        w.b.bind_sizes(values)
        w.in_main = bool(w.b.variables) or platform_index and depends_on_platform(p)
        _check_sizes(p, w.b.variables)
        if (scope := scope_of([a.shape for a in specs])) is not None:
            w.b.guarded = "!=" in scope.noted.values()
            for c in conditions(scope, w.b.variables.keys()):
                _assertion(w.b, c)
        env = dict(zip([p.inputs[i] for i in kept], values))
        for var, const in zip(p.const_vars, p.consts):
            env[var] = w.b._dense(np.asarray(const))
        outs = w.outputs(p, env)
        block.ops.append(Op("return", [v.ir for v in outs]))
    attributes: tuple[dict[str, Any], ...] = ({},) * len(block.arguments)
    if platform_index:
        attributes = (PLATFORM_INDEX, *attributes[1:])
    main = Func("main", block, tuple(v.ir.type for v in outs), True, attributes)
    return Module(f"jit_{name}", [main, *w.functions])


def _check_sizes(p: Program, known: dict[str, Value]) -> None:
    """ValueError where a variable of the arguments' shapes follows from no size."""
    shapes: list[tuple[Any, ...]] = [v.aval.shape for v in p.inputs]
    left = [(n, f"args[{i}].shape[{axis}]") for i, shape in enumerate(shapes)
            for axis, n in enumerate(shape) if isinstance(n, Dim) and n.variables() - known.keys()]
    if left:
        told = ", ".join(f"args[{i}].shape = {s}" for i, s in enumerate(shapes)
                         if not is_static(s))
        raise ValueError(unsolved(left, set(known), told))


def _assertion(b: PortableBuilder, c: Condition) -> None:
    """Writes a condition on sizes as JAX's modules have it."""
    left, right = b.number(c.left, I32), b.number(c.right, I32)
    holds = {">=": left.__ge__, "==": left.eq, "!=": left.ne}[c.kind](right)
    b.make("custom_call", [holds, left - right], [], call_target_name="shape_assertion",
           has_side_effect=True, api_version=Enum("api_version", "API_VERSION_STATUS_RETURNING"),
           called_computations=(), operand_layouts=(), output_operand_aliases=(), result_layouts=(),
           backend_config="", error_message=c.told)


def _sizes_follow(p: Program) -> bool:
    """Whether the sizes in a Program follow from those of its arguments."""
    sizes: list[Any] = [n for a in p.in_avals for n in a.shape if isinstance(n, Dim)]
    steps, _ = plan(sizes)
    return {v for n in sizes for v in n.variables()} <= {step.name for step in steps}


def parameters_text(params: Params) -> str | None:
    """Parameters that are plain values as JSON; None for others."""
    plain = all(v is None or isinstance(v, bool | int | str) for v in params.values())
    return json.dumps(params, sort_keys=True) if plain else None


class Writer:
    """Writes the equations of Programs into the builder's block."""

    def __init__(self, platforms: tuple[str, ...]) -> None:
        self.platforms = platforms
        self.b = PortableBuilder()
        self.functions: list[Func] = []
        self.names = {"main"}
        self.called: dict[Any, str] = {}
        # sizes are computed in main, and the platform is an argument of it: only what computes its
        # own sizes is called
        self.in_main = False
        self.platform_index: Value | None = None
        self.every = platforms  # (platforms: those of the branch that is written)
        self.equation: Equation

    def outputs(self, p: Program, env: dict[Var, Value]) -> list[Value]:
        for e in p.equations:
            env.update(zip(e.outputs, self._equation(e, env)))
        return [self.read(o, env) for o in p.outputs]

    def program(self, p: Program, args: Sequence[Value]) -> list[Value]:
        """The results of a Program without consts, written out here."""
        return self.outputs(p, dict(zip(p.inputs, args)))

    def call(self, p: Program, args: Sequence[Value], name: str,
             parameters: str | None = None) -> list[Value]:
        """The results of a Program as a function of its own; equal ones are written once.

        parameters: of the primitive that the Program is; written beside it (in a composite, or in
        the function's name: readers that refine shapes do not look into composites), so that
        who knows the primitive need not take the function.
        """
        if self.in_main and (parameters is None or not _sizes_follow(p) or (
                self.platform_index is not None and depends_on_platform(p))):
            return self.program(p, args)
        key = p.key()
        if key not in self.called:
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "f"
            base = own = f"calque.{name} {parameters} {base}" if self.in_main else base
            count = 0
            while own in self.names:
                count += 1
                own = f"{base}_{count}"
            self.names.add(own)
            self.called[key] = own
            with self.b.inside(Block()) as block, self.b.own_sizes():
                given = self.b.arguments(block, types_of([physical(a) for a in p.in_avals]))
                self.b.bind_sizes(given)
                outs = self.program(p, given)
                block.ops.append(Op("return", [v.ir for v in outs]))
            self.functions.append(Func(own, block, tuple(v.ir.type for v in outs)))
        results = [physical(a) for a in p.out_avals]
        specs = types_of(results)
        if parameters is None or self.in_main:
            return self.b.make("call", args, specs, callee=self.called[key])
        return self.b.make(
            "composite", args, specs, name=f"calque.{name}", decomposition=self.called[key],
            composite_attributes={"parameters": parameters}, version=Number(0, np.dtype("i4")))

    def read(self, atom: Atom, env: dict[Var, Value]) -> Value:
        if isinstance(atom, Literal):
            return self.b.splat(atom.value, (), atom.aval.dtype)
        return env[atom]

    def rows(self, x: Value, starts: Sequence[Value], sizes: Sequence[Any]) -> Value:
        """x from computed positions on, moved inside where they are not."""
        b, i32 = self.b, np.dtype("i4")
        if is_static(sizes):
            return b.one("dynamic_slice", [x, *starts], sizes, x.dtype, slice_sizes=ints(sizes))
        at = []
        for i, n, size in zip(starts, x.shape, sizes, strict=True):
            last = b.number(n, i32) - b.number(size, i32)
            at.append(b.reshape(b.minimum(b.maximum(i.astype(i32), 0), last), (1,)))
        start = b.concatenate(at, 0)
        return b.one("real_dynamic_slice", [x, start, start + b.vector(sizes), b.like(start, 1)],
                     sizes, x.dtype)

    def _equation(self, e: Equation, env: dict[Var, Value]) -> list[Value]:
        name, params = e.name, e.params
        ins, made = [a.aval for a in e.inputs], [v.aval for v in e.outputs]
        if words.has_keys([*ins, *made]):
            params = words.physical_params(name, params, ins, made)
        values = [self.read(a, env) for a in e.inputs]
        avals = [physical(a) for a in made]
        self.equation = e
        outs = self._apply(name, values, params, avals)
        for v, a in zip(outs, avals, strict=True):
            assert same_type(v, a), (name, v, a)
        return outs

    def _apply(self, name: str, values: list[Value], params: Params,
               avals: list[ShapedArray]) -> list[Value]:
        e = self.equation
        if name in CALLS:
            return self.call(params[CALLS[name]], values, name)
        if isinstance(e.primitive, ClientPrimitive):
            return self._client(e, values, avals)
        if e.primitive is const_p:
            return [self.b._dense(np.asarray(params["value"]).reshape(avals[0].shape))]
        if e.primitive is platform_index_p:
            groups: tuple[tuple[str, ...], ...] = params["platforms"]
            return [self.by_platform({n: next(
                (i for i, g in enumerate(groups) if n in g), len(groups)) for n in self.every})]
        form = rules.get(name)
        if form is None and e.primitive.program is not None:
            made = e.primitive.program(*[a.aval for a in e.inputs], **params)
            return self.call(made, values, name, parameters_text(params))
        if form is None:
            raise UnsupportedOperationError(explain(
                f"{name}: this primitive has no portable form in StableHLO.", where=str(e.source),
                fix="compile the function with calque.aot instead."))
        out = form(Use(values, params, avals, self))
        return out if isinstance(out, list) else [out]

    def _client(self, e: Equation, values: list[Value], avals: list[ShapedArray]) -> list[Value]:
        """The results of a client's primitive: of each platform's own rule."""
        def by(names: tuple[str, ...], program: Any, rule: Any) -> list[Value]:
            with self.for_platforms(names):
                if rule is not None:
                    return client_rules.written(self.b, e, rule, values, avals, names, self.call)
                made = closed_by_constants(program(*[a.aval.plain for a in e.inputs], **e.params))
                return self.call(made, values, str(e.primitive.name))

        chosen = client_rules.rules_of(e, self.platforms)
        if len(chosen) == 1:
            return by(*chosen[0])
        index = self.by_platform({n: i for i, (names, *_) in enumerate(chosen) for n in names})
        return self.b.make("case", [index], types_of(avals),
                           [self.b.region([], lambda c=c: by(*c)) for c in chosen])

    @contextlib.contextmanager
    def for_platforms(self, names: tuple[str, ...]) -> Iterator[None]:
        """While a branch is written that runs on these platforms only."""
        outer, self.platforms = self.platforms, names
        try:
            yield
        finally:
            self.platforms = outer

    def by_platform(self, numbers: dict[str, int]) -> Value:
        """The number that belongs to the platform on which the module runs."""
        b = self.b
        if self.platform_index is None:
            return b.splat(numbers[self.every[0]], (), np.int32)
        table = b._dense(np.asarray([numbers.get(name, 0) for name in self.every], np.int32))
        return b.reshape(b.one("dynamic_slice", [table, self.platform_index], (1,), np.int32,
                               slice_sizes=ints([1])), ())


def depends_on_platform(p: Program) -> bool:
    """Whether an equation, or one of an inner Program, is written for each platform."""
    return any(
        e.primitive is platform_index_p
        or isinstance(e.primitive, ClientPrimitive) and bool(e.primitive.by_platform)
        or any(map(depends_on_platform, e.inner)) for e in p.equations)
