"""Program: the one intermediate representation.  A flat list of equations over typed variables,
immutable once built; inner programs of higher-order primitives are parameters of equations.

`Program.key()` is the canonical structure (variables numbered in order of appearance): two programs
with equal keys compute the same function, so it is what compile caches are keyed by.
Imports core.avals, core.source and core.weights; core.printer installs __str__, checking is in
core.checker.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.config import config
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.lists import as_tuple
from calque.core.source import UNKNOWN, EquationSource, NameStack, Source
from calque.core.types import Params
from calque.core.weights import INTEGERS

if TYPE_CHECKING:
    from calque.core.primitive import Primitive


class Var:
    """A typed variable; identity is its name.

    Args:
      aval: its type.

    Example:
      >>> import calque
      >>> from calque.extend.core import Var
      >>> Var(calque.core.ShapedArray((2,), "float32"))
      Var(f32[2])
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval.short()})"


class Literal:
    """A rank-0 constant written into the equation.

    Args:
      value: the number.
      aval: its type.

    Example:
      >>> import calque
      >>> from calque.extend.core import Literal
      >>> Literal(2.0, calque.core.ShapedArray((), "float32")).val
      np.float32(2.0)
    """

    __slots__ = ("value", "aval")

    def __init__(self, value: Any, aval: ShapedArray) -> None:
        self.value = np.asarray(value).astype(aval.dtype)[()]
        self.aval = aval

    @property
    def val(self) -> Any:
        """The number."""
        return self.value

    def __repr__(self) -> str:
        return f"Literal({self.value}:{self.aval.short()})"


Atom = Var | Literal


class Equation:
    """outputs = primitive[params](inputs), at a place in the user's source."""

    __slots__ = ("primitive", "inputs", "outputs", "params", "source", "scope",
                 "name", "inner", "is_dynamic", "params_key", "facts")  # (what follows from those)
    name: str  # the primitive's
    inner: tuple[Program, ...]  # the Programs among its parameters
    is_dynamic: bool  # whether a size of it is known at the call only
    params_key: tuple[tuple[str, Any], ...]  # a hashable stand-in for the parameters
    facts: dict[Any, Any]  # what passes found out about it, by their names for it

    def __init__(self, primitive: Primitive, inputs: tuple[Atom, ...], outputs: tuple[Var, ...],
                 params: Params, source: Source = UNKNOWN,
                 scope: tuple[str, ...] = ()) -> None:
        self.primitive, self.inputs, self.outputs = primitive, inputs, outputs
        self.params, self.source, self.scope = params, source, scope
        self.name = primitive.name

    def __getattr__(self, name: str) -> Any:
        # asked some twenty times of each equation: worked out at the first
        if name == "inner":
            self.inner = tuple(inner_of(self.params))
            return self.inner
        if name == "is_dynamic":
            self.is_dynamic = _has_dim(self)
            return self.is_dynamic
        if name == "params_key":
            self.params_key = tuple((k, param_key(v)) for k, v in self.params.items())
            return self.params_key
        if name == "facts":
            self.facts = {}
            return self.facts
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def weight(self) -> int:
        """What an element of it costs, an addition being 1: of integers it may be another number
        than the primitive's own."""
        if self.name in INTEGERS and self.inputs[0].aval.dtype.kind in "iu":
            return INTEGERS[self.name]
        return self.primitive.weight

    # JAX's names for the same things
    @property
    def invars(self) -> tuple[Atom, ...]:
        """The operands."""
        return self.inputs

    @property
    def outvars(self) -> tuple[Var, ...]:
        """The results."""
        return self.outputs

    @property
    def source_info(self) -> EquationSource:
        """Where in the user's program it stands, and in which scopes."""
        return EquationSource(self.source.file, self.source.line, self.source.function,
                              NameStack(self.scope))

    @property
    def effects(self) -> frozenset[Any]:
        """Its name, if it has effects beside its results."""
        has = self.primitive.has_effects(self.params)
        return frozenset((self.name,)) if has else frozenset()

    def replace(self, **changes: Any) -> Equation:
        """A copy with some fields replaced."""
        made = Equation(self.primitive, self.inputs, self.outputs, self.params, self.source,
                        self.scope)
        for name, value in changes.items():
            own = _OURS.get(name, name)
            if own not in _FIELDS:
                raise TypeError(explain(f"an equation has no field {name!r}.", fix=(
                    f"name one of {', '.join(_FIELDS)}.")))
            setattr(made, own, value)
        made.name = made.primitive.name
        return made

    def reading(self, names: Mapping[Atom, Atom]) -> Equation:
        """The same of renamed operands; itself where it reads none of them."""
        inputs = tuple([names.get(a, a) for a in self.inputs]) if names else self.inputs
        return self if inputs == self.inputs else self.replace(inputs=inputs)

    def with_inner(self, change: Callable[[Program], Program]) -> Equation:
        """The same with each Program that it holds changed; itself where none is."""
        if not self.inner:
            return self

        def changed(v: Any) -> Any:
            if isinstance(v, tuple) and any(isinstance(q, Program) for q in v):
                return tuple(change(q) if isinstance(q, Program) else q for q in v)
            return change(v) if isinstance(v, Program) else v

        params = {k: changed(v) for k, v in self.params.items()}
        same = all(a is b for a, b in zip(inner_of(params), self.inner))
        return self if same else self.replace(params=params)

    def __repr__(self) -> str:
        return f"<{self.name} at {self.source}>"


_FIELDS = Equation.__slots__[:6]
_OURS = {"invars": "inputs", "outvars": "outputs", "eqns": "equations",
         "constvars": "const_vars", "source_info": "source"}


class Program:
    """consts and inputs -> equations -> outputs.

    `const_vars[i]` is bound to `consts[i]` (arrays captured by the traced function); programs held
    by higher-order primitives have no consts, whatever they capture is passed as operands.  Derived
    Programs have consts where a rule captures arrays; what binds them passes these (`closed`).
    """

    __slots__ = ("const_vars", "consts", "inputs", "equations", "outputs", "name", "_key",
                 "memo", "__weakref__")

    def __init__(self, inputs: Sequence[Var], equations: Sequence[Equation],
                 outputs: Sequence[Atom], const_vars: Sequence[Var] = (),
                 consts: Sequence[Any] = (), name: str = "main") -> None:
        self.inputs, self.equations = tuple(inputs), tuple(equations)
        self.outputs = tuple(outputs)
        self.const_vars, self.consts = tuple(const_vars), tuple(consts)
        self.name = name
        self._key: ProgramKey | None = None
        self.memo: dict[Any, Any] = {}  # derived programs (jvp, transpose, ...) by what was asked

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(v.aval for v in self.inputs)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(v.aval for v in self.outputs)

    # JAX's names for the same things
    @property
    def jaxpr(self) -> Program:
        return self

    @property
    def eqns(self) -> tuple[Equation, ...]:
        return self.equations

    @property
    def invars(self) -> tuple[Var, ...]:
        return self.inputs

    @property
    def outvars(self) -> tuple[Atom, ...]:
        return self.outputs

    @property
    def constvars(self) -> tuple[Var, ...]:
        return self.const_vars

    @property
    def literals(self) -> tuple[Any, ...]:
        return self.consts

    @property
    def debug_info(self) -> None:
        """Names of arguments and results, which are not kept here."""

    @property
    def effects(self) -> frozenset[Any]:
        return frozenset().union(*[e.effects for e in self.equations])

    def used(self) -> set[Atom]:
        """What equations or results use."""
        return {a for e in self.equations for a in e.inputs} | set(self.outputs)

    def has_effects(self) -> bool:
        return any(e.primitive.has_effects(e.params) for e in self.equations)

    def consts_as_inputs(self) -> Program:
        """The same program with its consts as leading inputs."""
        if not self.const_vars:
            return self
        return Program((*self.const_vars, *self.inputs), self.equations, self.outputs,
                       name=self.name)

    def with_numbers(self, values: dict[Var, Any]) -> Program:
        """The same program with the values of some consts of rank 0 written into it."""
        known: dict[Any, Atom] = {v: Literal(x, v.aval) for v, x in values.items()}
        rest = [(v, c) for v, c in zip(self.const_vars, self.consts) if v not in known]
        return self.replace(
            equations=[e.reading(known) for e in self.equations],
            outputs=[known.get(a, a) for a in self.outputs],
            const_vars=[v for v, _ in rest], consts=[c for _, c in rest])

    def replace(self, **changes: Any) -> Program:
        """A copy with some of inputs, equations, outputs, const_vars, consts and name replaced."""
        fields = {n: getattr(self, n) for n in ("inputs", "equations", "outputs", "const_vars",
                                                "consts", "name")}
        fields.update({_OURS.get(k, k): v for k, v in changes.items()
                       if k not in ("debug_info", "effects")})  # (JAX's; they follow here)
        return Program(**fields)

    def key(self) -> ProgramKey:
        """The canonical structure, hashable; computed once."""
        if self._key is None:
            self._key = ProgramKey(_structure(self))
        return self._key

    # p, or a ProgramError where checks are on: core.checker installs it
    def own_width(self) -> AbstractContextManager[None]:
        """Where it is transformed or lowered: x64 is on, if it was traced with 64-bit types while
        it was on, or the constants that rules make would be cut to 32 bits."""
        if config.jax_enable_x64 or not self._is_wide():
            return nullcontext()
        return config.context("jax_enable_x64", True)

    def _is_wide(self) -> bool:
        return any(map(dtypes.is_wide, self.dtypes()))

    def dtypes(self) -> frozenset[Any]:
        """Those of all values, at any depth."""
        if "dtypes" not in self.memo:
            found = {a.aval.dtype for a in (*self.const_vars, *self.inputs, *self.outputs)}
            for e in self.equations:
                found.update([a.aval.dtype for a in e.inputs], [v.aval.dtype for v in e.outputs])
                for q in e.inner:
                    found |= q.dtypes()
            self.memo["dtypes"] = frozenset(found)
        known: frozenset[Any] = self.memo["dtypes"]
        return known

    def names(self) -> frozenset[str]:
        """Those of the primitives in it, at any depth."""
        if "names" not in self.memo:
            self.memo["names"] = frozenset(e.name for e in self.equations).union(
                *[q.names() for e in self.equations for q in e.inner])
        known: frozenset[str] = self.memo["names"]
        return known

    checked: Callable[[Program, str], Program] = staticmethod(lambda p, when: p)

    def derived(self, what: Any, make: Callable[[], Any]) -> Any:
        """make(), remembered under `what` for as long as this program lives."""
        try:
            found = self.memo[what]
            return self if found is _ITSELF else found
        except KeyError:
            with self.own_width():
                made = make()
            for p in as_tuple(made):
                if isinstance(p, Program):
                    Program.checked(p, f"after {what}")
            if _holds_tracers(made):  # the function that it belongs to is being traced now only
                return made
            # a program that held itself would keep its consts until garbage is collected
            found = self.memo.setdefault(what, _ITSELF if made is self else made)
            return self if found is _ITSELF else found


_ITSELF: Any = object()  # in a memo: the program that it belongs to


def _holds_tracers(made: Any) -> bool:
    return any(isinstance(p, Program) and any(hasattr(c, "_trace") for c in p.consts)
               for p in as_tuple(made))


def inner_of(params: Params) -> list[Program]:
    """The Programs among the parameters of an operation."""
    found = []
    for value in params.values():
        if isinstance(value, Program):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += [q for q in value if isinstance(q, Program)]
    return found


def _has_dim(e: Equation) -> bool:
    for value in e.params.values():
        if isinstance(value, Dim):
            return True
    for atoms in (e.inputs, e.outputs):
        for a in atoms:
            for d in a.aval.shape:
                if isinstance(d, Dim):
                    return True
    return False


class ProgramKey:
    """A structure tuple with its hash computed once."""

    __slots__ = ("structure", "_hash")

    def __init__(self, structure: tuple[Any, ...]) -> None:
        self.structure = structure
        self._hash = hash(structure)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ProgramKey) and self._hash == other._hash
                                 and self.structure == other.structure)


def param_key(value: Any) -> Any:
    """A hashable stand-in for a parameter of an equation."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Program):
        return value.key()
    if isinstance(value, (tuple, list)):
        return tuple(param_key(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, param_key(v)) for k, v in value.items())
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, float):
        return (type(value), value.hex())  # 0.0 == -0.0 and nan != nan: compare the bits
    if isinstance(value, (bool, int)):
        return (type(value), value)  # True == 1 == 1.0 as dictionary keys
    try:
        hash(value)
    except TypeError:  # a parameter of a client's primitive
        return Itself(value)
    return value


class Itself:
    """A value without a hash as a key: equal to no other one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.value is self.value


def literal_key(atom: Literal) -> Any:
    return (atom.aval.plain, np.asarray(atom.value).tobytes())


def _structure(p: Program) -> tuple[Any, ...]:
    number: dict[Var, int] = {}
    for v in (*p.const_vars, *p.inputs):
        number[v] = len(number)

    def atom(a: Atom) -> Any:
        return number[a] if isinstance(a, Var) else literal_key(a)

    rows: list[Any] = []
    for e in p.equations:
        ins = tuple(atom(a) for a in e.inputs)
        for v in e.outputs:
            number[v] = len(number)
        rows.append((e.name, ins, e.params_key, tuple(v.aval.plain for v in e.outputs)))
    return (tuple(v.aval.plain for v in p.const_vars), tuple(v.aval.plain for v in p.inputs),
            tuple(rows), tuple(atom(a) for a in p.outputs))


def eliminate_dead_code(p: Program, used_outputs: Sequence[bool] | None = None) -> Program:
    """Without equations whose outputs nobody needs; inputs stay, unused outputs are dropped."""
    outputs = [o for i, o in enumerate(p.outputs) if used_outputs is None or used_outputs[i]]
    live = {o for o in outputs if isinstance(o, Var)}
    kept: list[Equation] = []
    for e in reversed(p.equations):
        if e.primitive.has_effects(e.params) or any(v in live for v in e.outputs):
            kept.append(e)
            live.update(a for a in e.inputs if isinstance(a, Var))
    consts = [(v, c) for v, c in zip(p.const_vars, p.consts) if v in live]
    return Program(p.inputs, kept[::-1], outputs, [v for v, _ in consts], [c for _, c in consts],
                   p.name)
