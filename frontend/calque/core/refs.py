"""References: arrays that are written into, as jax.Ref is.

A Ref holds a value, an immutable array, and writing gives it another one; so transformations see
values only.  A function that is traced gets a `Frame`: references from outside that it touches are
inputs of its Program, those that it writes are results, too, and whoever runs the Program stores
these (`Uses`).  Start reading at `_holder`.  Imports core only.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import AbstractValue, ShapedArray, aval_of, same_type
from calque.core.errors import UnexpectedTracerError, explain
from calque.core.lists import flagged
from calque.core.primitive import registry
from calque.core.program import Program, Var
from calque.core.source import Source, here
from calque.core.trace import Trace, Tracer, current
from calque.core.types import Shape


class AbstractRef(AbstractValue):
    """The type of a reference: that of the array in it.  Interned.

    Args:
      inner_aval: the type of the array.
      memory_space: accepted as JAX's; None.
      kind: that of `new_ref`.

    Example:
      >>> import calque
      >>> calque.typeof(calque.new_ref(1.0))
      Ref{float32[]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind")
    inner_aval: ShapedArray
    memory_space: None
    kind: str | None
    _all: dict[tuple[ShapedArray, str | None], AbstractRef] = {}

    def __new__(cls, inner_aval: ShapedArray, memory_space: Any = None,
                kind: Any = None) -> AbstractRef:
        found = cls._all.get((inner_aval, kind))
        if found is None:
            found = object.__new__(cls)
            found.inner_aval, found.memory_space, found.kind = inner_aval, None, kind
            found = cls._all.setdefault((inner_aval, kind), found)
        return found

    def __reduce__(self) -> Any:
        return AbstractRef, (self.inner_aval, None, self.kind)

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self.inner_aval.dtype

    @property
    def weak_type(self) -> bool:
        """Whether what is read gives way in promotion."""
        return self.inner_aval.weak_type

    @property
    def sharding(self) -> Any:
        """How what is stored is spread over devices, as types say it."""
        return self.inner_aval.sharding

    @property
    def placement(self) -> Any:
        """The Sharding that somebody gave what is stored; None: no matter."""
        return self.inner_aval.placement

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval.str_short()}}}"

    def short(self) -> str:
        """Ref{f32[2,3]}, as in jaxprs."""
        return f"Ref{{{self.inner_aval.short()}}}"


class Ref:
    """A reference to an array: `ref[...]` reads, `ref[i] = v` writes; made by `new_ref`.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> ref = calque.new_ref(jnp.arange(3))
      >>> ref[1] = 10
      >>> ref
      Ref([ 0, 10,  2], dtype=int32)
    """

    __slots__ = ("value", "abstract", "home", "source", "argument", "written", "frozen",
                 "differentiated", "__weakref__")

    def __init__(self, value: Any, argument: str = "", kind: str | None = None) -> None:
        self.value = value
        self.abstract = AbstractRef(aval_of(value), kind=kind)
        self.home = _plain(current.get())  # the trace to which what is stored belongs
        self.source: Source = here()
        self.argument = argument  # of the function that is traced: its name there
        self.written = self.frozen = False
        self.differentiated = 0  # functions under way that are differentiated by it

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self.abstract.shape

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self.abstract.dtype

    @property
    def constant(self) -> bool:
        """Whether what is stored is stored without its derivative."""
        return self.abstract.kind == "no_grad_no_remat"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.abstract.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.abstract.inner_aval.size

    def unsafe_buffer_pointer(self) -> int:
        """The address of what is stored now; a later store may be elsewhere."""
        return int(read(self).unsafe_buffer_pointer())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        if isinstance(self.value, Tracer):
            return f"Traced<{self.abstract}>"
        return "Ref" + repr(self.value).removeprefix("Array")

    def __deepcopy__(self, memo: Any) -> Ref:
        return Ref(read(self), kind=self.abstract.kind)

    def __reduce__(self) -> Any:
        return Ref, (read(self), "", self.abstract.kind)


class _Local:
    """What a reference from outside holds while a function is traced."""

    __slots__ = ("ref", "value", "written")

    def __init__(self, ref: Ref, value: Any) -> None:
        self.ref, self.value, self.written = ref, value, False


class Frame:
    """The references from outside that a function being traced touches.

    Args:
      outer: the trace under which the function is traced.
      reads: whether it may read only: what it reads is captured like any value.
    """

    __slots__ = ("outer", "reads", "rules", "local", "inputs")

    def __init__(self, outer: Trace, reads: bool = False) -> None:
        self.outer, self.reads = outer, reads
        self.rules = False  # whether rules of custom derivatives hold references
        self.local: dict[int, _Local] = {}
        self.inputs: list[Any] = []  # tracers, one for each of `local`

    def enter(self, ref: Ref, trace: Any) -> _Local:
        _holder(ref, self.outer, [])  # it is there
        value = trace.new(ref.abstract.inner_aval)
        self.inputs.append(value)
        made = self.local[id(ref)] = _Local(ref, value)
        return made

    def forget(self) -> None:
        """Hold no values of the trace any more, which is over."""
        self.inputs.clear()
        self.local.clear()


class Uses:
    """What a traced function does to references: its Program's inputs are its arguments (of a
    reference its value) and the values of those `closed` over; its results are `count` results
    proper, and what is left in the arguments `stored` and in those closed over and `written`."""

    __slots__ = ("count", "places", "stored", "closed", "written", "rules", "names")

    def __init__(self, count: int, places: Sequence[int], stored: Sequence[int],
                 closed: Sequence[Ref], written: Sequence[bool], rules: bool = False,
                 names: Sequence[str] = ()) -> None:
        self.rules, self.names = rules, list(names)  # names of the arguments at `places`
        self.count, self.places, self.stored = count, list(places), list(stored)
        self.closed, self.written = list(closed), list(written)

    def operands(self, name: str, leaves: Sequence[Any]) -> list[Any]:
        """Values of all inputs for these arguments; ValueError where a reference comes twice."""
        self.check(name, leaves)
        return [*[read(x) if type(x) is Ref else x for x in leaves],
                *[read(r) for r in self.closed]]

    def check(self, name: str, leaves: Sequence[Any]) -> None:
        """ValueError where two arguments, or one and what is closed over, are one reference."""
        passed = [leaves[i] for i in self.places]
        check_distinct(name, passed, self.names)
        for ref in self.closed:
            for i, p in enumerate(passed):
                if ref is p:
                    raise ValueError(explain(
                        f"when tracing {name}, a mutable array reference of type {ref.abstract} "
                        "was both closed over and passed as the argument "
                        f"{_named(self.names, i)}.", fix="pass it, or close over it."))

    def settle(self, leaves: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The results proper; what is left in references is stored."""
        targets = [*[leaves[i] for i in self.stored],
                   *flagged(self.closed, self.written)]
        for ref, value in zip(targets, outs[self.count:]):
            assign(ref, value)
        return list(outs[:self.count])

    def split(self, outs: Sequence[Any], held: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(the results proper, what all references closed over hold then); held: before."""
        left = iter(outs[self.count:])
        return list(outs[:self.count]), [
            next(left) if w else h for w, h in zip(self.written, held)]

    @property
    def local(self) -> bool:
        """Whether a reference lives in a trace: this cannot be used outside it."""
        return any(r.home.kind != "eval" for r in self.closed)


def equal_uses(count: int, traced: Sequence[tuple[Program, Uses | None]]
               ) -> tuple[list[Program], Uses | None]:
    """Branches of `count` operands, each with the references that any of them touches among its
    inputs, and those that any of them writes among its outputs."""
    every = [u for _, u in traced if u is not None]
    if not any(u.places or u.closed for u in every):
        return [p for p, _ in traced], None
    closed = list({id(r): r for u in every for r in u.closed}.values())
    written = [any(any(r is c and w for c, w in zip(u.closed, u.written)) for u in every)
               for r in closed]
    stored = sorted({i for u in every for i in u.stored})
    made = []
    for p, found in traced:
        u = found or Uses(every[0].count, [], [], [], [])
        own, more = p.inputs[:count], dict(zip([id(r) for r in u.closed], p.inputs[count:]))
        inputs = [*own, *[more.get(id(r)) or Var(r.abstract.inner_aval) for r in closed]]
        left = dict(zip([*u.stored, *[id(r) for r, w in zip(u.closed, u.written) if w]],
                        p.outputs[u.count:]))
        ends = [left.get(i, own[i]) for i in stored]
        ends += [left.get(id(r), v) for r, w, v in zip(closed, written, inputs[count:]) if w]
        made.append(p.replace(inputs=inputs, outputs=[*p.outputs[:u.count], *ends]))
    first = every[0]
    return made, Uses(first.count, first.places, stored, closed, written, names=first.names)


def _named(names: Sequence[str], i: int) -> str:
    return names[i] if i < len(names) else f"number {i}"


def check_distinct(name: str, refs: Sequence[Ref], names: Sequence[str] = ()) -> None:
    """ValueError where a function gets one reference twice; names: of the arguments."""
    for i, ref in enumerate(refs):
        for k, r in enumerate(refs[:i]):
            if ref is r:
                raise ValueError(explain(
                    "only one reference to a mutable array may be passed as an argument to a "
                    f"function, but when tracing {name} the mutable array reference of type "
                    f"{ref.abstract} appeared at both {_named(names, k)} and {_named(names, i)}.",
                    fix="pass it once."))


def bound_to_rules() -> None:
    """Note that a rule of a custom derivative holds a reference: what is traced now has to be
    differentiated while its references are there, so jit does not keep it as a Program."""
    trace: Trace | None = current.get()
    while trace is not None:
        frame = trace.frame
        if frame is not None:
            frame.rules = True
        trace = trace.parent if frame is None else frame.outer


def _plain(trace: Trace) -> Trace:
    """The trace whose values an operation's results are: lazy and eager blocks have no own ones."""
    while trace.kind in ("lazy", "eager"):
        assert trace.parent is not None
        trace = trace.parent
    return trace


def _holder(ref: Ref, trace: Trace | None, between: list[Trace]) -> Ref | _Local:
    """Where the value of a reference is kept, seen from a trace; the traces in between."""
    while trace is not None and trace is not ref.home:
        frame = trace.frame
        if frame is not None and frame.reads:
            between.append(trace)
            trace = frame.outer
        elif frame is not None:
            return frame.local.get(id(ref)) or frame.enter(ref, trace)
        elif trace.kind == "stage":
            raise NotImplementedError(explain(
                f"a reference of type {ref.abstract} is used where its value cannot be passed: in "
                "a rule of a custom derivative that is applied inside jit or a loop, in shard_map "
                "or in a callback.",
                fix="take the gradient inside jit, not of a jitted function or of a loop; or "
                    "return the value."))
        else:
            between.append(trace)
            trace = trace.parent
    if trace is None:
        raise UnexpectedTracerError(explain(
            f"a reference of type {ref.abstract}, made at {ref.source}, was used after the "
            "transformation that made it had ended.",
            fix="make it outside, or return what is in it."))
    return ref


def read(ref: Ref) -> Any:
    """The array in a reference."""
    found = _holder(ref, current.get(), [])
    if ref.frozen and found is ref:
        raise ValueError(explain(
            f"a reference of type {ref.abstract} was used after it was frozen.",
            fix="use what freeze returned."))
    _check_passed(ref)
    return found.value


@contextlib.contextmanager
def differentiated_by(refs: Sequence[Ref]) -> Iterator[None]:
    """While a function runs that is differentiated by these arguments of it, too: they may go to
    functions with rules of their own, but not be read or written, of which no derivative is known.
    """
    for r in refs:
        r.differentiated += 1
    try:
        yield
    finally:
        for r in refs:
            r.differentiated -= 1


def _check_passed(ref: Ref) -> None:
    if ref.differentiated and dtypes.is_inexact(ref.dtype):
        raise ValueError(explain(
            f"a reference of type {ref.abstract} is read or written in a function that is "
            "differentiated by it.",
            fix="close over the reference, where what it holds is constant, or pass its value."))


def assign(ref: Ref, value: Any) -> None:
    """Store an array of the reference's shape and dtype."""
    between: list[Trace] = []
    found = _holder(ref, current.get(), between)
    _check_passed(ref)
    if ref.constant:
        value = _constant(value, between)
    for trace in between:
        _check_between(ref, value, trace)
    want, have = ref.abstract.inner_aval, aval_of(value)
    assert same_type(want, have), (want, have)
    if want.weak_type != have.weak_type:
        value = registry["convert_element_type"].bind(
            value, new_dtype=want.dtype, weak_type=want.weak_type, sharding=None)
    found.value, found.written = value, True


def _constant(value: Any, between: Sequence[Trace]) -> Any:
    """What is stored in a reference that keeps no derivatives."""
    for trace in between:
        if isinstance(value, Tracer) and value._trace is trace and trace.kind != "vmap":
            value = value.primal  # type: ignore[attr-defined]
    return value


def _check_between(ref: Ref, value: Any, trace: Trace) -> None:
    """ValueError where a trace between stores what the reference cannot hold."""
    if trace.kind == "vmap":
        what, where = "vmapped value on an unbatched", "to the vmapped"
    elif isinstance(value, Tracer) and value._trace is trace:
        what, where = "a differentiated value on a non-differentiated", "of the differentiated"
    elif trace.kind == "stage":
        raise NotImplementedError(explain(
            f"a function with a custom derivative writes into a reference of type {ref.abstract} "
            "while it is traced.", fix="write in its backward rule, or outside of it."))
    else:
        return
    raise ValueError(explain(
        f"performing a set/swap operation with {what} array reference of type {ref.abstract}. Move "
        f"the array reference to be an argument {where} function?",
        fix="pass the reference as an argument, or make it inside the function."))


def refuse_result(name: str, transformation: str, ref: Ref, path: str) -> ValueError:
    """The error for a function that returns a reference."""
    origin = f"passed in as the argument {ref.argument}" if ref.argument else (
        f"created on line {ref.source}")
    place = f" at output tree path result{path}" if path else ""
    return ValueError(explain(
        f"function {name} traced for {transformation} returned a mutable array reference of type "
        f"{ref.abstract}{place}, but mutable array references cannot be returned.\n\nThe returned "
        f"mutable array was {origin}.", fix="return its value, ref[...]."))
