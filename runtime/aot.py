"""Artifacts: .vmfb files that say what is in them, loaded and called by name without a compiler.

Every exported function carries a JSON record in its reflection ("calque.signature"): names, shapes,
dtypes, donation, the target's CPU features, versions, pytree structures.  `load` reads the records
and checks the machine; a call checks arity, dtypes and shapes, so that a mistake is a sentence and
not a crash.  The record's format is `parse_record`; the C++ runtime reads the same one.
"""
from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime.archives import dtype_of
from calque.runtime.buffer import Buffer
from calque.runtime.call_spec import CallSpec, as_count
from calque.runtime.container import split
from calque.runtime.device import Device, default_device, vm_instance
from calque.runtime.dims import Constraint, Expression, fits, parse, parse_constraint
from calque.runtime.errors import ArtifactError, explain
from calque.runtime.executable import Executable, Module, load_error
from calque.runtime.flatbuffer import Damaged
from calque.runtime.parameters import Parameter, Source, check_digests, provider
from calque.runtime.program import read_program
from calque.runtime.session import Session, StateRecord, check_state, parse_state
from calque.runtime.variants import by_shapes, known_sizes, shapes_of

RECORD_KEY = "calque.signature"
DECLARATION_KEY = "iree.abi.declaration"  # of the compiler's own
RECORD_VERSION = 2  # 2: "call"

Dim = int | Expression  # a size that is known at the call only is an expression of variables


@dataclass(frozen=True, slots=True)
class ArgumentRecord:
    """One argument or result: its path in the pytree, dtype, and shape."""

    path: str
    shape: tuple[Dim, ...]
    dtype: np.dtype[Any]
    origin: tuple[str, int] | None = None  # of a result: see FunctionRecord
    spec: tuple[tuple[str, ...], ...] | None = None  # the mesh axes that split each dimension

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(str(d) for d in self.shape)}]"


@dataclass(frozen=True, slots=True)
class FunctionRecord:
    """What an artifact says about one of its functions.

    Attributes:
      args, results: of the user's function, all of them.
      passed: which arguments the module's function takes, in its order; the others are unused or
        empty.  A result's `origin` is ("computed", k) for the k-th result of the module's function,
        ("argument", i) for an argument returned as it is, or ("empty", -1).
      donated: positions among args.
      constraints: what holds of the variables in shapes, at every call.
      call: how the module's function is called.
      parameters: arrays that it reads from an archive beside the artifact.
      mesh: names and sizes of the axes of devices that the function was written for; it takes and
        gives whole arrays, whose `spec` says how they were spread.
      state: which arguments and results are leaves of a module's state.
      entry: the name of the module's function.
      text: the record as it is written in the file (JSON).
    """

    name: str
    args: tuple[ArgumentRecord, ...]
    results: tuple[ArgumentRecord, ...]
    donated: tuple[int, ...]
    target: Mapping[str, Any]
    versions: Mapping[str, str]
    in_tree: Any = None
    out_tree: Any = None
    passed: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    call: CallSpec = CallSpec()
    mesh: tuple[tuple[str, int], ...] = ()
    entry: str = ""
    text: str = ""
    state: StateRecord | None = None

    def signature(self) -> str:
        """The function in one line: f(x: float32[8,128]) -> float32[8]."""
        args = ", ".join(f"{a.path}: {a}" for a in self.args)
        results = ", ".join(str(r) for r in self.results)
        return f"{self.name}({args}) -> {results}"


def parse_record(text: str, entry: str = "") -> FunctionRecord:
    """The FunctionRecord of a JSON text; ArtifactError if it is not one of ours."""
    try:
        raw = json.loads(text)
        version = raw["version"]
        if version != RECORD_VERSION:
            raise ArtifactError(explain(
                f"the artifact describes itself in format {version}; this runtime reads format "
                f"{RECORD_VERSION}.", "", "use the calque that wrote it, or compile again."))
        results = _results(raw["results"])
        donated = tuple(int(i) for i in raw.get("donated", ()))
        passed = tuple(int(i) for i in raw.get("passed", range(len(raw["args"]))))
        record = FunctionRecord(
            str(raw["name"]), _arguments(raw["args"]), results, donated,
            MappingProxyType(dict(raw.get("target", {}))),
            MappingProxyType(dict(raw.get("versions", {}))),
            raw.get("in_tree"), raw.get("out_tree"), passed,
            tuple(Parameter(str(p["name"]), dtype_of(p["dtype"]),
                            tuple(int(d) for d in p["shape"]), str(p.get("digest", "")))
                  for p in raw.get("parameters", ())),
            tuple(parse_constraint(*map(str, c)) for c in raw.get("constraints", ())),
            _call_spec(raw.get("call", {}), passed, donated, results),
            tuple((str(n), as_count(size)) for n, size in raw.get("mesh", ())),
            entry or str(raw["name"]), text, parse_state(raw.get("state")))
        _check_positions(record)
        check_state(record)
        return record
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SyntaxError,
            OverflowError, RecursionError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(explain(
            f"the artifact's description of a function cannot be read: {error!r}.", "",
            "compile it again; the file was written by something else or is damaged.")) from error


def _call_spec(raw: Mapping[str, Any], passed: Sequence[int], donated: Sequence[int],
               results: Sequence[ArgumentRecord]) -> CallSpec:
    """How the module's function is called, with what the record says elsewhere."""
    specs: Any = [(r.shape, r.dtype) if all(isinstance(d, int) for d in r.shape) else None
                  for _, r in sorted(_computed(results).items())]
    kept = {r.origin[1] for r in results if r.origin is not None and r.origin[0] == "argument"}
    return CallSpec.from_json(raw, specs, tuple(
        k for k, i in enumerate(passed) if i in donated and i not in kept))


def _computed(results: Sequence[ArgumentRecord]) -> dict[int, ArgumentRecord]:
    """The results of the module's function: of each the first that is made of it."""
    return {r.origin[1]: r for r in reversed(results)
            if r.origin is not None and r.origin[0] == "computed"}


def _check_positions(record: FunctionRecord) -> None:
    """IndexError where the record points to an argument that it has not."""
    count = len(record.args)
    names = [n for n, _ in record.mesh]
    for a in (*record.args, *record.results):
        if a.spec is not None and (len(a.spec) != len(a.shape) or not all(
                n in names for axes in a.spec for n in axes)):
            raise ValueError(f"{a.path} is spread over {a.spec} of the mesh {record.mesh}")
    used = [*record.passed, *record.donated,
            *[r.origin[1] for r in record.results if r.origin and r.origin[0] == "argument"]]
    if any(not 0 <= i < count for i in used):
        raise IndexError(f"an argument beyond the {count} that there are")
    computed, written = _computed(record.results), record.call.output_buffers
    if len(set(written)) != len(written) or not all(
            k in computed and all(isinstance(d, int) for d in computed[k].shape) for k in written):
        raise IndexError("memory for a result that it has not, or has twice, or of unknown size")
    known = {d.linear[0] for a in record.args for d in a.shape
             if isinstance(d, Expression) and d.linear is not None}
    asked = [d for a in (*record.args, *record.results) for d in a.shape
             if isinstance(d, Expression)]
    asked += [e for c in record.constraints for e in (c.left, c.right)]
    for e in asked if record.call.work is None else [*asked, record.call.work]:
        if not e.variables <= known:
            raise ValueError(f"the dimension {e} is in no argument's shape")


def _arguments(raw: Sequence[Mapping[str, Any]]) -> tuple[ArgumentRecord, ...]:
    return tuple(ArgumentRecord(
        str(a["path"]), tuple(parse(d) if isinstance(d, str) else int(d) for d in a["shape"]),
        dtype_of(a["dtype"]), None, tuple(tuple(map(str, axes)) for axes in a["spec"])
        if "spec" in a else None) for a in raw)


def _results(raw: Sequence[Mapping[str, Any]]) -> tuple[ArgumentRecord, ...]:
    origins = [r.get("from", ("computed", k)) for k, r in enumerate(raw)]
    return tuple(replace(a, origin=(str(o[0]), int(o[1]) if len(o) > 1 else -1))
                 for a, o in zip(_arguments(raw), origins, strict=True))


class Artifact:
    """A loaded .vmfb: `artifact["name"](*arrays)`, or `artifact.name(*arrays)`.

    Artifacts are made by `load`, not by this class.

    Attributes:
      functions: name -> FunctionRecord.
      device: where its functions run.

    Args:
      vmfb: the file's bytes.
      device: where to run.
      source: the file's name, for messages.
      parameters: the archive of its parameters, or arrays by name; by default the .irpa file beside
        `source`.
      check_parameters: compare the digests of its arrays.

    Raises:
      ArtifactError: not a .vmfb, another bytecode version, or code this machine cannot run.

    Example:
      >>> import calque.aot, calque.numpy as jnp, numpy as np
      >>> from calque import runtime
      >>> compiled = calque.aot.compile(jnp.negative, "f32[2]")
      >>> artifact = runtime.load(compiled.vmfb)
      >>> artifact.functions["negative"].signature()
      'negative(x: float32[2]) -> float32[2]'
      >>> artifact.negative(np.ones(2, np.float32))[0].numpy()
      array([-1., -1.], dtype=float32)
    """

    def __init__(self, vmfb: bytes, device: Device, source: str,
                 parameters: Source | None = None, check_parameters: bool = False) -> None:
        self.device = device
        self.source = source
        parts = [(part, _read_part(part, source)) for part in split(vmfb, source)]
        wanted = [p for _, records in parts for r in records for p in r.parameters]
        given = None
        if wanted:
            archive = (beside(source) if parameters is None else parameters)
            given = provider(archive, wanted, source)
            if check_parameters:
                check_digests(archive, wanted, source)
        candidates: dict[str, list[tuple[FunctionRecord, Module]]] = {}
        for part, records in parts:
            _check_version(part, source)
            module = Module(part, parameters=given if any(r.parameters for r in records) else None)
            for record in records:
                candidates.setdefault(record.name, []).append((record, module))
        self._calls = {name: _function(by_shapes(found, device, source), device)
                       for name, found in candidates.items()}
        self.functions: Mapping[str, FunctionRecord] = MappingProxyType(
            {name: call.record for name, call in self._calls.items()})

    @property
    def every(self) -> list[ArtifactFunction]:
        """Its functions, each in all its forms."""
        return [form for f in self._calls.values() for form in f.forms.values() or (f,)]

    def __getitem__(self, name: str) -> ArtifactFunction:
        try:
            return self._calls[name]
        except KeyError:
            raise ArtifactError(explain(
                f"no function {name!r} in this artifact; it has {', '.join(self._calls)}.",
                self.source, "name one of those.")) from None

    def __getattr__(self, name: str) -> ArtifactFunction:
        if not name.startswith("_") and name in self._calls:
            return self._calls[name]
        raise AttributeError(f"no function {name!r} in {self!r}")

    def session(self) -> Session:
        """A new state, as the module had it when it was compiled, and calls with it.

        Returns:
          A Session; several of one artifact share its program and its parameters.

        Raises:
          ArtifactError: the artifact has no state.
        """
        return Session(self)

    def __repr__(self) -> str:
        functions = ", ".join(r.signature() for r in self.functions.values())
        return f"Artifact({self.source}: {functions})"


def _function(forms: Sequence[tuple[FunctionRecord, Module]], device: Device) -> ArtifactFunction:
    """What is called by a name: the first form, and the others where their shapes are given."""
    first, *others = [ArtifactFunction(record, module, device) for record, module in forms]
    if others:
        first.forms = {shapes_of(f.record): f for f in (first, *others)}
    return first


class ArtifactFunction:
    """One function of an artifact; arguments are NumPy arrays, scalars or Buffers, in order.

    Attributes:
      record: what the artifact says of it.
      forms: by the shapes of arguments what was compiled for them, where it is there for several.
    """

    def __init__(self, record: FunctionRecord, module: Module, device: Device) -> None:
        self.record = record
        self.device = device
        self.forms: dict[Any, ArtifactFunction] = {}
        sizes = [d for a in record.args for d in a.shape if isinstance(d, Expression)]
        self._dynamic = bool(record.constraints) or any(d.linear is None for d in sizes)
        # queued, and inline: loaded when first taken
        self._executables = None if not _computed(record.results) else [
            Executable(module, device, replace(record.call, run_inline=inline), record.entry,
                       record.name) for inline in (False, True)]

    def form(self, shapes: Sequence[Sequence[int]]) -> ArtifactFunction:
        """What is called for arguments of these shapes."""
        return self.forms.get(tuple(map(tuple, shapes)), self)

    def executable(self, sizes: Mapping[str, int]) -> Executable | None:
        """The program that runs for these sizes; None where there is nothing to compute."""
        if self._executables is None:
            return None
        return self._executables[self.record.call.runs_inline(sizes)]

    def __call__(self, *args: Any) -> list[Buffer]:
        """Run the function; the results come back at once and may be pending."""
        record = self.record
        if self.forms:
            form = self.form([a.shape if isinstance(a, Buffer) else np.shape(a) for a in args])
            if form is not self:
                return form(*args)
        if len(args) != len(record.args):
            raise TypeError(explain(
                f"{record.name}() takes {len(record.args)} arguments, got {len(args)}.",
                record.signature(), "pass " + ", ".join(a.path for a in record.args) + "."))
        sizes: dict[str, int] = {}
        buffers = [self._buffer(i, expected, given, sizes)
                   for i, (expected, given) in enumerate(zip(record.args, args, strict=True))]
        for buffer in buffers:
            buffer.check_alive()
        if self._dynamic:
            self._check_sizes(buffers, sizes)
        executable = self.executable(sizes)
        computed = [] if executable is None else executable([buffers[i] for i in record.passed])
        outputs = self._assemble(buffers, computed, sizes)
        for i in record.donated:
            if not buffers[i].is_deleted():  # not for the program, but given up all the same
                buffers[i].delete()
        return outputs

    def _check_sizes(self, args: Sequence[Any], sizes: dict[str, int]) -> None:
        """What could not be said of one argument alone; the record's constraints."""
        record = self.record
        for position, (expected, given) in enumerate(zip(record.args, args, strict=True)):
            if not all(fits(n, d, sizes) for n, d in zip(given.shape, expected.shape, strict=True)):
                raise self._wrong_shape(position, expected, given.shape, sizes)
        for c in record.constraints:
            if not c.holds(sizes):
                known = ", ".join(f"{k} = {v}" for k, v in sorted(sizes.items())
                                  if k in c.left.variables | c.right.variables)
                users = ", ".join(
                    f"{a.path} is {a}" for a in record.args
                    if any(isinstance(d, Expression) and d.variables
                           & (c.left.variables | c.right.variables) for d in a.shape))
                raise ValueError(explain(
                    f"{c} must hold of the arguments' sizes, got {known}.",
                    f"{record.name}; {users}",
                    "pass arrays of other sizes, or compile the function for these."))

    def _wrong_shape(self, position: int, expected: ArgumentRecord, shape: Sequence[int],
                     sizes: Mapping[str, int]) -> ValueError:
        known = f" with {dict(sizes)}" if sizes else ""
        if self.forms:
            return ValueError(explain(
                f"{self.record.name} was not compiled for {expected.path} of shape "
                f"{tuple(shape)}{known}; it takes {known_sizes(self.forms)}.",
                f"{self.record.name}; argument {position} is {expected.path}",
                "pass arrays of these shapes, or compile it for this one, too."))
        return ValueError(explain(
            f"{expected.path} must be {expected}{known}, got shape {tuple(shape)}.",
            f"{self.record.name}; argument {position} is {expected.path}",
            "pass an array of that shape, or compile the function for this one."))

    def check(self, args: Sequence[np.ndarray[Any, Any]]) -> None:
        """Raise what a call with these arrays would, without one."""
        form = self.form([a.shape for a in args])
        if form is not self:
            form.check(args)
            return
        sizes: dict[str, int] = {}
        for i, (expected, given) in enumerate(zip(self.record.args, args, strict=True)):
            self._check_one(i, expected, given, sizes)
        if self._dynamic:
            self._check_sizes(args, sizes)

    def _assemble(self, args: Sequence[Buffer], computed: Sequence[Buffer],
                  sizes: Mapping[str, int]) -> list[Buffer]:
        """The user's results from the module's; each is a Buffer of its own."""
        outputs: list[Buffer] = []
        for expected in self.record.results:
            kind, position = expected.origin or ("computed", len(outputs))
            if kind == "computed":
                output = computed[position]
                if any(o is output for o in outputs):
                    output = output.with_shape(output.shape)
                output.dtype = expected.dtype  # programs return signless integers
            elif kind == "argument":
                output = args[position].with_shape(args[position].shape)
            else:
                shape = tuple(d.evaluate(sizes) if isinstance(d, Expression) else d
                              for d in expected.shape)
                output = Buffer.from_numpy(np.zeros(shape, expected.dtype), self.device)
            outputs.append(output)
        return outputs

    def _buffer(self, position: int, expected: ArgumentRecord, given: Any,
                sizes: dict[str, int]) -> Buffer:
        if isinstance(given, int | float | complex | bool):  # Python's scalars have no dtype
            given = np.asarray(given, expected.dtype)
        value = given if isinstance(given, Buffer) else np.asarray(given)
        self._check_one(position, expected, value, sizes)
        return value if isinstance(value, Buffer) else Buffer.from_numpy(value, self.device)

    def _check_one(self, position: int, expected: ArgumentRecord, value: Any,
                   sizes: dict[str, int]) -> None:
        where = f"{self.record.name}; argument {position} is {expected.path}"
        if value.dtype != expected.dtype:
            raise TypeError(explain(
                f"{expected.path} must be {expected}, got dtype {value.dtype}.", where,
                f"pass {expected.path}.astype({str(expected.dtype)!r})."))
        if not _fits(value.shape, expected.shape, sizes):
            raise self._wrong_shape(position, expected, value.shape, sizes)

    def __repr__(self) -> str:
        return f"<artifact function {self.record.signature()}>"


def matches(shape: Sequence[int], expected: tuple[Dim, ...]) -> bool:
    """Whether an array of this shape may be an argument, looked at alone."""
    return _fits(shape, expected, {})


def _fits(shape: Sequence[int], expected: tuple[Dim, ...], sizes: dict[str, int]) -> bool:
    """May a shape fit?  A variable takes its value where it is met first."""
    return len(shape) == len(expected) and all(
        fits(size, dim, sizes) is not False for size, dim in zip(shape, expected, strict=True))


def load(source: str | os.PathLike[str] | bytes, device: Device | None = None, *,
         parameters: str | os.PathLike[str] | Mapping[str, Any] | None = None,
         check_parameters: bool = False) -> Artifact:
    """Load a self-describing .vmfb for a device.

    Args:
      source: a path, or the file's bytes.
      device: where its functions run (default: the CPU).
      parameters: the archive of its parameters, where it has some, or arrays by name; by default
        the file beside `source` that ends in .irpa.
      check_parameters: read the whole archive and compare its arrays' digests, which loading does
        not (a second for 1 GB).

    Returns:
      An Artifact.

    Raises:
      ArtifactError: not a .vmfb, another bytecode version, code this machine cannot run, or
        parameters that are not there.

    Example:
      >>> import calque.aot, calque.numpy as jnp
      >>> from calque import runtime
      >>> compiled = calque.aot.compile(jnp.negative, "f32[2]")
      >>> list(runtime.load(compiled.vmfb).functions)
      ['negative']
    """
    vmfb, name = _read(source)
    given = parameters if parameters is None or isinstance(parameters, Mapping) else Path(
        parameters)
    return Artifact(vmfb, device or default_device(), name, given, check_parameters)


def beside(source: str) -> Path:
    """The archive that belongs to an artifact where none is named."""
    return Path(source).with_suffix(".irpa")


def read_records(source: str | os.PathLike[str] | bytes) -> list[FunctionRecord]:
    """What a .vmfb (a path or its bytes) says about its functions, one record a target.

    The file may be for another machine: nothing of it is run.

    Raises:
      ArtifactError: not a .vmfb, a damaged one, or one that says nothing.
    """
    return [record for _, records in read_parts(source) for record in records]


def read_parts(source: str | os.PathLike[str] | bytes
               ) -> list[tuple[bytes, list[FunctionRecord]]]:
    """The modules of a .vmfb, each with the records of its functions.

    Raises:
      ArtifactError: as `read_records`.
    """
    data, name = _read(source)
    return [(part, _read_part(part, name)) for part in split(data, name)]


def _read(source: str | os.PathLike[str] | bytes) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, f"{len(source)} bytes"
    path = Path(source)
    try:
        return path.read_bytes(), str(path)
    except OSError as error:
        raise ArtifactError(explain(f"cannot read {path}: {error.strerror or error}.", "",
                                    "check the path.")) from error


def _read_part(vmfb: bytes, source: str) -> list[FunctionRecord]:
    if not _looks_like_vmfb(vmfb):
        raise ArtifactError(explain(
            "not a .vmfb: the file does not begin as one.", source,
            "give a file written by `calque compile`."))
    try:
        functions = read_program(vmfb).functions
    except Damaged as error:
        raise ArtifactError(explain(
            f"the artifact is damaged: {error}.", source,
            "copy it again, or compile it again.")) from error
    records = [parse_record(known[RECORD_KEY], name)
               for name, known in functions.items() if known.get(RECORD_KEY)]
    for record in records:
        _check_declaration(record, functions[record.entry].get(DECLARATION_KEY, ""), source)
    if not records:
        raise ArtifactError(explain(
            "the .vmfb does not describe itself (no function has a calque.signature).", source,
            "compile it with `calque compile` or calque.export; other .vmfb files can be run with "
            "iree.runtime."))
    return records


def _check_version(part: bytes, source: str) -> None:
    """Whether IREE reads what this part is written in; it runs nothing of it."""
    try:
        rt.VmModule.copy_buffer(vm_instance(), part)
    except Exception as error:  # IREE maps its status codes to many classes
        raise load_error(error, source) from error


def _check_declaration(record: FunctionRecord, declaration: str, source: str) -> None:
    """A record must fit what the compiler wrote of the function: IREE reads as many sizes of an
    argument as the program has axes before it looks how many axes the argument has."""
    given = {r.origin[1]: len(r.shape) for r in record.results
             if r.origin is not None and r.origin[0] == "computed"}
    wanted = [*[(len(record.args[i].shape), "") for i in record.passed],
              *[(given[k], str(k)) for k in record.call.output_buffers]]
    taken = [(sizes.count("x"), stored) for sizes, stored in re.findall(
        r"%input\d+: tensor<((?:[?\d]+x)*)[^>]*>+(?: \{[^{}]*?iree\.abi\.output = (\d+))?",
        declaration)]
    made = [sizes.count("x") for sizes in re.findall(
        r"%output\d+: tensor<((?:[?\d]+x)*)", declaration)]
    declared = [_type_of(*found) for found in re.findall(_DECLARED, declaration)]
    computed = _computed(record.results)
    said: list[ArgumentRecord] = [
        *[record.args[i] for i in record.passed],
        *[computed[k] for k in record.call.output_buffers],
        *[computed[i] for i in sorted(computed)]]
    if (taken != wanted or sorted(computed) != list(range(len(made)))
            or made != [given[i] for i in sorted(given)]
            or len(declared) != len(said) or not all(map(_is_declared, said, declared))
            or ("iree.abi.transients" in declaration) != record.call.transients):
        raise ArtifactError(explain(
            f"the artifact's description of {record.name} is not that of the program: "
            f"{declaration[:200]}.", source,
            "compile it again; the file was written by something else or is damaged."))


_DECLARED = r"%(?:input|output)\d+: tensor<((?:[?\d]+x)*)(complex<)?([a-z]+)(\d+)"


def _type_of(sizes: str, parts: str, kind: str, bits: str) -> tuple[list[int | None], str, int]:
    """Sizes (None: known at the call only), kind and bytes of a type in a declaration."""
    return ([None if d == "?" else int(d) for d in sizes.split("x")[:-1]],
            "c" if parts else kind[-1], max(1, int(bits) // 8) * (2 if parts else 1))


def _is_declared(said: ArgumentRecord, declared: tuple[list[int | None], str, int]) -> bool:
    """Whether a record's array has the sizes and the type that the program declares."""
    sizes, kind, itemsize = declared
    dtype = said.dtype
    return (all(n is None or n == d for n, d in zip(sizes, said.shape, strict=True))
            and dtype.itemsize == itemsize
            and (itemsize == 1 or kind == ("i" if dtype.kind in "iu" else
                                           "c" if dtype.kind == "c" else "f")))


def _looks_like_vmfb(vmfb: bytes) -> bool:
    # A zip whose first member is the module, or the bare flatbuffer with its identifier.
    return (vmfb[:4] == b"PK\x03\x04" and b"module.fb" in vmfb[:64]) or b"IREE" in vmfb[4:16]
