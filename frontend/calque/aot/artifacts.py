"""Ahead of time: a Python function and the types of its arguments become .vmfb files that describe
themselves, for this machine or others, run by calque.runtime without a compiler.

`compile` traces once and lowers once per target; arrays that the function captured are written into
the file.  The record that each file carries is made in aot/records.py; runtime/aot.py reads it.
Start reading at `compile`.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from calque import runtime
from calque.aot.buckets import Buckets, combinations, with_sizes
from calque.aot.records import State, record_of, tree_json
from calque.aot.specs import SpecError, as_specs
from calque.aot.weights import (
    Stored,
    digest_of,
    flat,
    names_of,
    parameters,
    save_parameters,
    stored,
)
from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config
from calque.core.dims import Dim, SymbolicScope, scope_of
from calque.core.errors import explain
from calque.core.naming import name_of
from calque.core.program import Program
from calque.core.trace import Tracer, escaped_tracer_error
from calque.core.types import Function, Ndarray, Params
from calque.dispatch import stages
from calque.dispatch.array import Array
from calque.dispatch.eager import named_target
from calque.dispatch.sharded import labels
from calque.dispatch.sharded.partial_programs import whole
from calque.dispatch.sharded.spanning import any_spans
from calque.dispatch.tracing import ShapeDtypeStruct, check_arguments, trace_to_program
from calque.lowering.driver.attempts import compile_lowered
from calque.lowering.driver.module import Lowered, LowerOptions, lower
from calque.lowering.target.targets import Target
from calque.runtime import ArtifactError
from calque.runtime import parameters as archive
from calque.runtime.container import join
from calque.trees import util as tree_util

BESIDE_BYTES = 1 << 20  # of captured arrays, from which on they are beside the file by default


class ArgumentError(TypeError):
    """The types given do not go with the function's parameters."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A function traced for export: its Program and how its arguments and results are called."""

    program: Program
    in_tree: Any
    out_tree: Any
    paths: tuple[str, ...]  # of the arguments' leaves: x, params['w']
    donated: tuple[int, ...]  # leaves whose memory the results may take
    placement: labels.Placement | None = None  # over a mesh of devices
    names: tuple[str, ...] = ()  # of the captured arrays, "" where they have none
    stored: Mapping[int, Stored] = field(default_factory=dict)  # those in an archive, by their id
    state: State | None = None  # of a module's method: see aot/modules.py

    def parameter_name(self, value: Ndarray) -> str | None:
        """The name of a captured array in the archive; None for those written into the file."""
        found = self.stored.get(id(value))
        return None if found is None else found.name

    def beside(self, wanted: bool | None) -> Traced:
        """With captured arrays in an archive: where that is wanted, or (None) where they are
        large."""
        if wanted is False or wanted is None and sum(
                c.nbytes for c in self.program.consts) < BESIDE_BYTES:
            return self
        consts = self.program.consts
        return replace(self, stored=stored(consts, self.names or ("",) * len(consts)))


@dataclass(frozen=True, slots=True)
class Part:
    """A function compiled for one target and one list of argument shapes."""

    name: str
    target: str  # its canonical name
    vmfb: bytes
    shapes: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What `compile` and `link` made: functions, each for one or several targets, in one file.

    Attributes:
      parts: the compiled modules.
      parameters: arrays that they read from an archive, by name.
    """

    parts: tuple[Part, ...]
    parameters: Mapping[str, Ndarray] = field(default_factory=dict, repr=False)

    @property
    def vmfb(self) -> bytes:
        """The file's bytes; the same parts give the same bytes."""
        return join(list(dict.fromkeys(p.vmfb for p in self.parts)))

    @property
    def names(self) -> tuple[str, ...]:
        """The functions, in order."""
        return tuple(dict.fromkeys(p.name for p in self.parts))

    @property
    def targets(self) -> tuple[str, ...]:
        """What they are compiled for, in order."""
        return tuple(dict.fromkeys(p.target for p in self.parts))

    def save(self, path: str | Path, parameters: str | Path | None = None) -> Path:
        """Write the file, and the archive of its parameters (by default beside it); its path."""
        path = Path(path)
        path.write_bytes(self.vmfb)
        if self.parameters:
            archive.save(Path(parameters or path.with_suffix(".irpa")), self.parameters)
        return path

    def __repr__(self) -> str:
        return "Artifact(" + ", ".join(
            f"{p.name} for {p.target}: {len(p.vmfb)} bytes" for p in self.parts) + ")"


def link(*sources: Artifact | str | Path | bytes) -> Artifact:
    """One artifact of several: more entry points, or more targets of one.

    Args:
      *sources: artifacts, paths of .vmfb files, or their bytes.

    Returns:
      An Artifact with all their functions.

    Raises:
      ArtifactError: a file is no artifact; a function comes twice for one target and the same
        shapes of arguments (of others the one is called whose shapes the arguments have); two
        have arrays of one name and other values beside them.

    Notes:
      The arrays beside the files are joined, too: `save` writes one archive.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import aot
      >>> both = aot.link(aot.compile(jnp.sin, "f32[3]"), aot.compile(jnp.cos, "f32[3]"))
      >>> both.names
      ('sin', 'cos')
      >>> model = aot.load(both.vmfb)
      >>> model.cos(np.zeros(3, np.float32))[0].numpy()
      array([1., 1., 1.], dtype=float32)
    """
    parts: list[Part] = []
    joined: dict[str, Ndarray] = {}
    for source in sources:
        if isinstance(source, Artifact):
            parts += source.parts
            _join(joined, source.parameters)
            continue
        for vmfb, records in runtime.aot.read_parts(source):
            parts += [Part(r.name, str(r.target.get("name", "?")), vmfb, _shapes(r.args))
                      for r in records]
        if not isinstance(source, bytes) and runtime.aot.beside(str(source)).is_file():
            _join(joined, parameters(source))
    seen: set[tuple[str, str, str]] = set()
    for p in parts:
        if (p.name, p.target, p.shapes) in seen:
            raise ArtifactError(explain(
                f"{p.name} comes twice for {p.target} and {p.shapes}.", where="link",
                fix="give one of them another name (calque compile --name)."))
        seen.add((p.name, p.target, p.shapes))
    return Artifact(tuple(parts), joined)


def _join(joined: dict[str, Ndarray], more: Mapping[str, Ndarray]) -> None:
    """Add arrays that are beside an artifact; ArtifactError where a name is another array's."""
    for name, value in more.items():
        known = joined.setdefault(name, value)
        if known is not value and (known.dtype, known.shape, digest_of(known)) != (
                value.dtype, value.shape, digest_of(value)):
            raise ArtifactError(explain(
                f"two of the artifacts have a parameter {name}, and not the same values of it.",
                where="link", fix="give one of the variables another name, or compile one of them "
                "with its arrays in the file (--no-parameters)."))


def compile(fun: Function, *specs: Any,  # noqa: A001
            targets: str | Target | Sequence[str | Target] = ("cpu",),
            static: Mapping[str, Any] | None = None, donate_argnums: int | Sequence[int] = (),
            name: str | None = None, parameters: bool | None = False,
            constraints: Sequence[str] = (),
            buckets: Buckets = (), **kwspecs: Any) -> Artifact:
    """Compile a function ahead of time, for arguments of these types.

    Args:
      fun: a pure function of arrays and trees of them (jitted or not), or what jit(f).lower(...)
        gave; that one takes no further types.
      *specs: the type of each positional argument: text such as 'f32[8,128]' or 'f32[b,128]' (b is
        known at the call only), a ShapeDtypeStruct, an array, or a tree of these.
      targets: what to compile for: 'cpu' (this machine), 'cpu:x86-64-v3', 'cuda:sm_80', ...
      static: values of parameters that are not arrays, by name; compiled in.
      donate_argnums: positions of arguments (static ones counted) whose memory results may take.
      name: the function's name in the artifact; by default its own.
      parameters: captured arrays go not into the file but into an archive beside it (`save`), which
        artifacts may share: under the name of the variable that holds them and their path in its
        tree, WEIGHTS['layer1']['w'], so that other values can take their place; those that no
        variable holds (of 1 KiB and more) under their type and a digest.  None: where they are
        1 MiB and more.
      constraints: of dimensions that are known at the call only, such as 'b >= 8'.
      buckets: sizes of such a dimension for which the file holds programs of their own, which are
        called for them: (1, 8, 64), or for several dimensions {'b': (1, 8), 'n': (128,)}, of which
        every combination is compiled.
      **kwspecs: types of arguments passed by keyword.

    Returns:
      An Artifact; `.save(path)` writes it, `load(path)` reads it again.

    Raises:
      ArgumentError: the types do not go with the function's parameters.
      SpecError, TargetError: a type or a target is written wrongly.

    Notes:
      Arrays that the function captures are written into the file, so that `.vmfb` is all of it;
      `calque compile` keeps 1 MiB and more beside it.  64-bit types need jax_enable_x64, as
      everywhere.

    Example:
      >>> from calque import aot
      >>> from calque.primitives.elementwise import sin_p
      >>> made = aot.compile(lambda x: sin_p.bind(x), "f32[3]", name="sine")
      >>> run = aot.load(made.vmfb)["sine"]
      >>> float(run(np.zeros(3, np.float32))[0].numpy()[0])
      0.0
    """
    chosen = [named_target(t) for t in ([targets] if isinstance(targets, str | Target)
                                        else targets)]
    if isinstance(fun, stages.Lowered):
        if buckets:
            raise ArgumentError(explain(
                "a lowered function has its sizes already.", where="aot.compile(buckets=)",
                fix="give the function itself, and types with names for sizes."))
        if specs or kwspecs or static or donate_argnums:
            raise ArgumentError(explain(
                "a lowered function has its arguments already.", where="aot.compile",
                fix="give types, static values and donated arguments to jit and lower()."))
        return build_all([_of_lowered(fun, name)], chosen, parameters)
    return for_platforms(chosen, lambda some: build_all(
        trace_all(fun, *specs, static=static, donate_argnums=donate_argnums, name=name,
                  constraints=constraints, buckets=buckets, **kwspecs), some, parameters))


def load(path: str | Path | bytes | Artifact, device: runtime.Device | None = None, *,
         parameters: str | Path | Mapping[str, Any] | None = None, check_parameters: bool = False
         ) -> runtime.Artifact:
    """Load an artifact for a device; see calque.runtime.load.

    Args:
      path: the file, its bytes, or what `compile` and `link` gave, with its parameters in memory.
      device: where its functions run (default: the CPU).
      parameters: another archive than the one beside the file, or trees of arrays by name, as for
        `save_parameters`: {"WEIGHTS": tree}.
      check_parameters: compare the digests of the arrays with those that were compiled.

    Raises:
      ArtifactError: as calque.runtime.load.
    """
    given = flat(parameters) if isinstance(parameters, Mapping) else parameters
    if isinstance(path, Artifact):
        return runtime.load(path.vmfb, device, check_parameters=check_parameters,
                            parameters=path.parameters if given is None else given)
    return runtime.load(path, device, parameters=given, check_parameters=check_parameters)


# ---- tracing
def trace(fun: Function, *specs: Any, static: Mapping[str, Any] | None = None,
          donate_argnums: int | Sequence[int] = (), name: str | None = None,
          constraints: Sequence[str] = (), **kwspecs: Any) -> Traced:
    """Trace a function for export; the arguments are those of `compile`."""
    return trace_all(fun, *specs, static=static, donate_argnums=donate_argnums, name=name,
                     constraints=constraints, **kwspecs)[0]


def trace_all(fun: Function, *specs: Any, static: Mapping[str, Any] | None = None,
              donate_argnums: int | Sequence[int] = (), name: str | None = None,
              constraints: Sequence[str] = (), buckets: Buckets = (), **kwspecs: Any
              ) -> list[Traced]:
    """The same, and for each combination of buckets the function of these sizes behind it."""
    scope = SymbolicScope(constraints)
    args, kwargs = as_specs(specs, scope), as_specs(kwspecs, scope)
    slots, rest = _place(fun, args, dict(static or {}))
    _check_call(fun, slots, kwargs, rest)

    def dynamic(*given: Any, **named: Any) -> Any:
        values = iter(given)
        return fun(*[next(values) if kind == "array" else value for kind, value in slots],
                   **named, **rest)

    dynamic.__wrapped__ = fun  # type: ignore[attr-defined]  # what messages show
    pairs, in_tree = tree_util.tree_flatten_with_path((args, kwargs))
    leaves = [_as_spec(x) for _, x in pairs]
    check_arguments(name_of(fun), leaves, in_tree)
    own = name or name_of(fun)
    avals = [aval_of(x) for x in leaves]
    if any_spans(avals):
        raise _of_several(name_of(fun))

    def traced(avals: Sequence[ShapedArray]) -> Traced:
        program, out_tree = trace_to_program(dynamic, in_tree, avals,
                                             own if own.isidentifier() else "main")
        made = whole(program)
        return Traced(_with_numpy_consts(made), in_tree, out_tree,
                      tuple(_path(fun, slots, p) for p, _ in pairs),
                      _donated(slots, pairs, donate_argnums),
                      labels.placement(program, avals), names_of(dynamic, made.consts))

    return [traced(avals), *[traced([with_sizes(a, sizes) for a in avals])
                             for sizes in combinations(buckets, avals)]]


def _of_lowered(lowered: stages.Lowered, name: str | None) -> Traced:
    """What jit(f).lower(...) traced, for export."""
    entry, fun = lowered.entry, lowered.fun
    marks = lowered.in_tree.unflatten(list(range(lowered.in_tree.num_leaves)))
    pairs, _ = tree_util.tree_flatten_with_path(marks)
    slots = [("array", None)] * len(marks[0])
    for position in sorted(lowered.static_positions):
        slots.insert(position, ("static", None))
    own = name or name_of(fun)
    p = entry.program
    renamed = Program(p.inputs, p.equations, p.outputs, p.const_vars, p.consts,
                      own if own.isidentifier() else "main")
    made = whole(renamed)
    return Traced(_with_numpy_consts(made), lowered.in_tree, lowered.out_tree,
                  tuple(_path(fun, slots, path) for path, _ in pairs), tuple(entry.donated),
                  labels.placement(p, entry.in_avals), names_of(fun, made.consts))


def _as_spec(x: Any) -> Any:
    if isinstance(x, ShapeDtypeStruct | Array | Tracer):
        return x
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None and not isinstance(x, np.ndarray | np.generic):
        return ShapeDtypeStruct(shape, dtype)  # another library's spec or array
    return x


def _positional(fun: Function) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _place(fun: Function, args: Sequence[Any], static: Params
           ) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """The positional arguments in order, ("array", spec) or ("static", value), and what remains of
    static, to be passed by keyword."""
    given = list(args)
    slots: list[tuple[str, Any]] = []
    for p in _positional(fun):
        if not given:
            break
        slots.append(("static", static.pop(p.name)) if p.name in static
                     else ("array", given.pop(0)))
    return [*slots, *[("array", g) for g in given]], static


def _check_call(fun: Function, slots: Sequence[tuple[str, Any]],
                kwargs: Mapping[str, Any], static: Mapping[str, Any]) -> None:
    """ArgumentError, in a sentence, where Python would refuse the call."""
    both = sorted(kwargs.keys() & static.keys())
    if both:
        raise ArgumentError(explain(
            f"{name_of(fun)}: {both[0]} is given a type and a static value.", where="",
            fix="give one of them."))
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[v for _, v in slots], **kwargs, **static)
    except TypeError as error:
        raise ArgumentError(explain(
            f"{name_of(fun)}{signature}: {error}.", where="",
            fix="give one type for each parameter, and the value of a parameter that is not an "
                "array as static.")) from None


def _path(fun: Function, slots: Sequence[tuple[str, Any]], path: Sequence[Any]) -> str:
    """How the user calls a leaf: x, params['w'], args[2] where the parameter has no name."""
    root, first, *rest = path
    if root.idx == 1:  # keyword
        return f"{first.key}{tree_util.keystr(rest)}"
    position = [i for i, (kind, _) in enumerate(slots) if kind == "array"][first.idx]
    names = [p.name for p in _positional(fun)]
    head = names[position] if position < len(names) else f"args[{position}]"
    return head + tree_util.keystr(rest)


def _donated(slots: Sequence[tuple[str, Any]], pairs: Sequence[tuple[Any, Any]],
             donate_argnums: int | Sequence[int]) -> tuple[int, ...]:
    wanted = {donate_argnums} if isinstance(donate_argnums, int) else set(donate_argnums)
    arrays = [i for i, (kind, _) in enumerate(slots) if kind == "array"]
    for n in sorted(wanted):
        if n not in arrays:
            raise ArgumentError(explain(
                f"argument {n} cannot be donated: the positional arrays are "
                f"{', '.join(map(str, arrays)) or 'none'}.", where="",
                fix="give the position of an array argument, counted from 0."))
    return tuple(i for i, (p, _) in enumerate(pairs)
                 if p[0].idx == 0 and arrays[p[1].idx] in wanted)


def _with_numpy_consts(p: Program) -> Program:
    """Captured arrays by their values (keys by their words)."""
    return Program(p.inputs, p.equations, p.outputs, p.const_vars, [_value(c) for c in p.consts],
                   p.name)


def _value(x: Any) -> Ndarray:
    if isinstance(x, Tracer):
        raise escaped_tracer_error(x, "aot.compile")
    return x._numpy() if isinstance(x, Array) else np.asarray(x, aval_of(x).dtype)


# ---- lowering
def lower_for(traced: Traced, target: Target, transients: bool = True, **how: Any) -> Lowered:
    """The module that goes into the artifact, its record included; `how`: other LowerOptions."""
    p = traced.program
    kept = set(p.outputs)  # an argument that is a result as it is may not be overwritten
    donated = [i for i in traced.donated if p.inputs[i] not in kept]
    _check_callbacks(p)
    _check_sizes(p)
    return lower(p, target, LowerOptions(
        donated=donated, bake_consts=True, archived=traced.parameter_name,
        output_buffers=target.takes_memory, transients=transients and target.takes_storage,
        record=lambda lowered: record_of(traced, target, lowered), **how))


def _check_callbacks(p: Program) -> None:
    """Python functions cannot leave Python, nor messages the processes that send them."""
    for e in p.equations:
        where = e.params.get("mesh", getattr(e.params.get("sharding"), "mesh", None))
        if getattr(where, "grid", None) is not None or e.name.startswith("message_"):
            raise _of_several(str(e.source))
        if e.name.endswith("_callback"):
            raise TypeError(explain(
                f"{e.name} of {e.params['callback']!r}: an artifact cannot call Python.",
                str(e.source), "take the callback out, or compute it before or after."))
        for q in e.inner:
            _check_callbacks(q)


def _of_several(where: str) -> TypeError:
    return TypeError(explain(
        "an artifact is a program of one process, and this one is over the devices of several.",
        where, "use a mesh of calque.local_devices(), or call the jitted function."))


def options_for(lowered: Lowered, target: Target) -> tuple[str, ...]:
    """The compiler's options.  Without debug symbols, because IREE 3.13 writes an uninitialised
    word as the source line of code without a location: one input would give several files, now
    and then (twelve compiles in a row: one file at AVX-512, two at x86-64-v2)."""
    if target.backend == "llvm-cpu":
        return (*lowered.options, "--iree-llvmcpu-debug-symbols=false")
    return lowered.options


def build_all(every: Sequence[Traced], targets: Sequence[Target], beside: bool | None,
              begin: Callable[[Target], None] = lambda target: None) -> Artifact:
    """The artifact of a function, traced for some sizes, for some targets; `begin` hears of each
    pair.  `beside`: see `Traced.beside`."""
    parts: list[Part] = []
    archived: dict[str, Ndarray] = {}
    for one in every:
        traced = one.beside(beside)
        for t in targets:
            begin(t)
            parts.append(Part(traced.program.name, t.name, build(traced, t),
                              _shapes(traced.program.in_avals)))
        archived.update({x.name: x.value for x in traced.stored.values()})
    return Artifact(tuple(parts), archived)


def for_platforms(targets: Sequence[Target], build: Callable[[list[Target]], Artifact]
                  ) -> Artifact:
    """One artifact of what `build` gives for the targets of each platform, for which it traces: the
    functions that lax.platform_dependent takes are the targets', not those of this machine."""
    places: dict[str, list[int]] = {}
    for k, t in enumerate(targets):
        places.setdefault(t.platform, []).append(k)
    found: dict[int, list[Part]] = {k: [] for k in range(len(targets))}
    parameters: dict[str, Ndarray] = {}
    for platform, some in places.items():
        with config.exporting((platform,)):
            made = build([targets[k] for k in some])
        parameters.update(made.parameters)
        for i, part in enumerate(made.parts):  # of each function one for each target
            found[some[i % len(some)]].append(part)
    return Artifact(tuple(p for row in zip(*found.values(), strict=True) for p in row), parameters)


def _shapes(args: Sequence[Any]) -> str:
    return " ".join("[" + ",".join(map(str, a.shape)) + "]" for a in args)


def build(traced: Traced, target: Target) -> bytes:
    """The .vmfb of a traced function for one target."""
    _, vmfb = compile_lowered(lambda **how: lower_for(traced, target, **how), target,
                              lambda lowered: options_for(lowered, target),
                              f"aot {traced.program.name}", traced.program.name)
    assert vmfb is not None
    return vmfb


def _check_sizes(p: Program) -> None:
    """Every variable is the size, or a multiple of it and a number, of an axis."""
    scopes = {id(d.scope): d for a in p.in_avals for d in a.shape if isinstance(d, Dim)}  # type: ignore[attr-defined]
    if len(scopes) > 1:
        one, other = list(scopes.values())[:2]
        raise ValueError(explain(
            f"Invalid mixing of symbolic scopes: '{one}' and '{other}' of the arguments were made "
            "apart.", where=p.name,
            fix="make both with one call of symbolic_shape, or pass it scope=other.scope."))
    known = {found[0] for a in p.in_avals for d in a.shape if isinstance(d, Dim)
             and (found := d.linear()) is not None}
    scope = scope_of([a.shape for a in (*p.in_avals, *p.out_avals)])
    asked = {n for a in (*p.in_avals, *p.out_avals) for d in a.shape if isinstance(d, Dim)
             for n in d.variables()}  # type: ignore[attr-defined]
    for _, left, right in () if scope is None else scope.constraints:
        asked |= {n for d in (left, right) if isinstance(d, Dim) for n in d.variables()}
    if asked - known:
        shapes = ", ".join(a.short() for a in p.in_avals)
        raise ValueError(explain(
            f"Cannot solve for values of dimension variables {sorted(asked - known)}: no argument "
            f"of {shapes} has an axis of such a size.", where=p.name,
            fix="give one argument an axis of exactly that size (b), a multiple of it (2*b) or a "
                "sum with a number (b + 1)."))


__all__ = ["ArgumentError", "Artifact", "Part", "SpecError", "Traced", "build", "compile", "link",
           "load", "lower_for", "options_for", "parameters", "save_parameters", "trace",
           "tree_json"]
