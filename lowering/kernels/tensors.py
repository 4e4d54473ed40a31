"""The equations of a Program over memory: rank-0 values are registers, arrays are `Memory`.

Shape operations are views; elementwise equations of one shape share one loop nest, whose results
are stored where something else reads them.  The forms of elementwise primitives are those of
lowering/rules, run under a KernelBuilder.  Start reading at `Emitter.run`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from calque.core.avals import ShapedArray
from calque.core.lists import other_axes
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32
from calque.lowering.emit.registry import Op, rules
from calque.lowering.kernels import fft_in_loops, homes, indexing, joined, memory
from calque.lowering.kernels.contract import dot_general
from calque.lowering.kernels.homes import is_of, is_same
from calque.lowering.kernels.indexing import Picked
from calque.lowering.kernels.joined import Joined, Part
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.reductions import Computed, reduce
from calque.lowering.kernels.values import SCALAR, KernelBuilder
from calque.lowering.passes import picks
from calque.lowering.passes.loops import decomposition

if TYPE_CHECKING:
    from calque.lowering.kernels.shell import Shell

Entry = Value | Memory
P = TypeVar("P")
LEAST_COMPUTED = 8  # numbers side by side from which on a fold computes what it folds: shorter
# rows are vectors where what lies in memory is one row

FEW = 4  # times a part of an array that is copied so that it can be written into


class Emitter:
    """Emits Programs into a kernel."""

    def __init__(self, shell: Shell, emit_loop: Callable[..., list[Entry]]) -> None:
        self.shell, self.emit_loop = shell, emit_loop
        self.apply = shell.apply
        self.made: list[Any] = []  # the memory allocated so far, in order

    def allocate(self, shape: Shape, dtype: Dtype) -> Memory:
        memory = self.shell.allocate(shape, dtype)
        self.made.append(memory.ref)
        return memory

    def run(self, p: Program, args: Sequence[Part],
            destinations: dict[Var, list[Memory]] | None = None,
            owned: Sequence[Any] = (), over: dict[Var, Var] | None = None) -> list[Part]:
        """The outputs of p; a var with destinations is written there as well.  owned: memory that
        p may overwrite, which only its arguments are views of; over: values that may be written
        over an argument of which they are computed (homes.carried)."""
        return _Run(self, p, args, destinations or {}, owned, over or {}).outputs()

    def scalar(self, value: Any, dtype: Dtype) -> Value:
        return SCALAR.splat(value, (), dtype)

    def copy(self, source: Part, target: Memory) -> None:
        """Write source (a scalar: everywhere) into target."""
        elementwise(target.shape, [target], [source], lambda b, xs: xs)

    def temporary(self, source: Memory | Joined) -> Memory:
        target = self.allocate(source.shape, source.dtype)
        self.copy(source, target)
        return target


def elementwise(shape: Shape, targets: Sequence[Memory], parts: Sequence[Part | Picked],
                body: Callable[[KernelBuilder, list[Value]], Sequence[Value]]) -> None:
    """targets = body(parts) at every index of shape."""
    if any(isinstance(s, Joined) for s in parts):
        for box in joined.boxes(shape, parts):
            elementwise(tuple(n for _, n in box), [joined.within(t, box) for t in targets],
                        [joined.within(s, box) for s in parts], body)
        return
    sources = [s for s in parts if not isinstance(s, Joined)]
    arrays = [s for s in (*sources, *targets) if isinstance(s, Memory)]
    gathers = [s for s in sources if isinstance(s, Picked)]
    if all(a.is_dense() for a in arrays) and all(s.is_flat() for s in gathers):
        shape = (math.prod(shape),)
        sources = [s.flat() if isinstance(s, Picked) else
                   s.view(shape, (1,)) if isinstance(s, Memory) else s for s in sources]
        targets = [t.view(shape, (1,)) for t in targets]
    arrays += [m for s in gathers for m in s.arrays]
    dtypes = [a.dtype for a in arrays] or [F32]
    lanes = min(memory.widest(d) for d in dtypes)
    if any(t.strides and t.strides[-1] != 1 and t.shape[-1] > 1 for t in targets):
        lanes = 1
    if not shape:
        shape, targets = (1,), [t.view((1,), (1,)) for t in targets]
        sources = [s.view((1,), (1,)) if isinstance(s, Memory) else s for s in sources]

    def row(outer: list[Index]) -> None:
        def step(b: KernelBuilder, i: Index) -> None:
            where = [*outer, i]
            values = [memory.load(b, s, where) if isinstance(s, Memory) else
                      s.load(b, where) if isinstance(s, Picked) else
                      (b.to_lanes(s) if b.lanes > 1 else s) for s in sources]
            for t, v in zip(targets, body(b, values), strict=True):
                memory.store(b, v, t, where)
        memory.strip(shape[-1], lanes, step)

    memory.nest(shape[:-1], row)


class _Run:
    """One Program being emitted."""

    def __init__(self, emitter: Emitter, p: Program, args: Sequence[Part],
                 destinations: dict[Var, list[Memory]], owned: Sequence[Any],
                 over: dict[Var, Var]) -> None:
        self.emitter, self.p, self.destinations, self.over = emitter, p, destinations, over
        self.owned, self.before = owned, len(emitter.made)
        self.env: dict[Var, Part] = dict(zip(p.inputs, args, strict=True))
        self.group: list[Equation] = []
        self.picked: dict[Var, Picked] = {}  # of gathers in the group
        self.later: dict[Var, Equation] = {}  # shapes of what the group computes for an update
        self.offsets: dict[Any, Index] = {}
        self.written: set[Var] = set()  # vars whose destinations were served
        self.uses: dict[Var, list[int]] = {}
        for i, e in enumerate(p.equations):
            for a in e.inputs:
                if isinstance(a, Var):
                    self.uses.setdefault(a, []).append(i)
        for o in p.outputs:
            if isinstance(o, Var) and o not in destinations:
                self.uses.setdefault(o, []).append(len(p.equations))
        self.position = {id(e): i for i, e in enumerate(p.equations)}

    def outputs(self) -> list[Part]:
        for e in self.p.equations:
            self.equation(e)
        self.flush()
        outs = [self.destinations[o][0] if o in self.written and o not in self.env else
                self.peek(o) for o in self.p.outputs]
        for v, targets in self.destinations.items():
            if v not in self.written:
                for t in targets:
                    self.emitter.copy(self.peek(v), t)
        return outs

    def peek(self, a: Atom) -> Part:
        if isinstance(a, Literal):
            return self.emitter.scalar(a.value, a.aval.dtype)
        if a not in self.env:
            self.flush()
        return self.env[a]

    def read(self, a: Atom) -> Entry:
        """The same in one piece."""
        x = self.peek(a)
        if isinstance(x, Joined):
            assert isinstance(a, Var)
            self.env[a] = x = self.emitter.temporary(x)
        return x

    # ---- equations
    def equation(self, e: Equation) -> None:
        name = e.name
        if e.primitive.kernel == "map":
            if e.outputs[0].aval.shape:
                self.join(e)
            else:
                values = [self.scalar_of(self.read(a)) for a in e.inputs]
                self.env[e.outputs[0]] = self.emitter.apply(SCALAR, e, values)
            return
        if e.primitive.kernel == "view":
            if self.is_for_update(e):
                self.later[e.outputs[0]] = e
            else:
                self.env[e.outputs[0]] = self.view(e)
        elif name == "dynamic_update_slice" and self.update_at_once(e):
            pass
        elif e.primitive.kernel == "fold":
            self.env[e.outputs[0]] = self.fold(e)
        elif name in ("concatenate", "pad") and self.join_lazily(e) or (
                name == "gather" and self.pick_lazily(e)):
            pass
        elif name in indexing.NAMES:
            self.env[e.outputs[0]] = self.indexed(e)
        else:
            form = getattr(self, f"_{name}", self.decomposed)
            outs = form(e, [self.read(a) for a in e.inputs])
            self.env.update(zip(e.outputs, outs, strict=True))

    def scalar_of(self, x: Entry) -> Value:
        return memory.load(SCALAR, x, [0] * x.ndim) if isinstance(x, Memory) else x

    # ---- elementwise groups
    def join(self, e: Equation) -> None:
        if self.group and self.group[-1].outputs[0].aval.shape != e.outputs[0].aval.shape:
            self.flush()
        self.group.append(e)

    def flush(self, placed: dict[Var, Memory] | None = None) -> None:
        """Emit the group as one loop nest; placed: where values lie that nothing else reads."""
        if not self.group:
            return
        group, self.group = self.group, []
        given, self.picked = self.picked, {}
        inside = {e.outputs[0] for e in group}
        last = self.position[id(group[-1])]
        computed = [e for e in group if e.outputs[0] not in given]
        sources = dict[Atom, Part | Picked](given.items())
        for e in computed:
            for a in e.inputs:
                if a not in inside and a not in sources:
                    sources[a] = self.peek(a)
        shape = group[0].outputs[0].aval.shape
        boxes = len(joined.boxes(shape, list(sources.values())))
        if boxes > joined.MOST_BOXES or boxes > 1 and boxes * len(group) > joined.MOST_CODE:
            sources = {a: s if isinstance(s, Picked) else self.read(a)
                       for a, s in sources.items()}
        members = {self.position[id(e)] for e in group}
        stored: list[tuple[Var, Memory]] = []
        for e in group:
            v = e.outputs[0]
            wanted = [t for t in self.destinations.get(v, ()) if t.is_dense()]
            if len(wanted) == len(self.destinations.get(v, ())) and wanted:
                self.written.add(v)
                stored += [(v, t) for t in wanted]
            if placed and v in placed:
                stored.append((v, placed[v]))
            elif any(u not in members for u in self.uses.get(v, ())) or (
                    v in self.destinations and v not in self.written):
                home = self.home(v, members)
                if v in self.written and home is None:  # (it is read where it belongs)
                    self.env[v] = wanted[0]
                    continue
                made = home or self.emitter.allocate(v.aval.shape, v.aval.dtype)
                self.env[v] = made
                stored.append((v, made))
        assert last is not None
        if not stored:
            return

        def body(b: KernelBuilder, values: list[Value]) -> list[Value]:
            env: dict[Atom, Value] = dict(zip(sources, values))
            for e in computed:
                env[e.outputs[0]] = self.emitter.apply(b, e, [env[a] for a in e.inputs])
            return [env[v] for v, _ in stored]

        elementwise(shape, [t for _, t in stored], [
            _aligned(s, shape) for s in sources.values()], body)

    def home(self, v: Var, members: set[int]) -> Memory | None:
        """The argument that a value of the group is written over."""
        x = self.env[self.over[v]] if v in self.over else None
        if not isinstance(x, Memory) or not x.is_dense() or not any(
                x.ref is r for r in self.owned):
            return None
        reads = homes.Reads(self.p)
        return x if all(reads.end(w, members, is_same(m, x)) for w, m in self.env.items()
                        if is_of(m, x)) else None

    def pick_lazily(self, e: Equation) -> bool:
        """What a gather picks, read by the group; False where its windows are no whole ones."""
        out = e.outputs[0]
        if not out.aval.size or not picks.is_picked(e) or out.aval.ndim == len(
                e.params["dimension_numbers"].offset_dims):  # (one window: a copy)
            return False
        made = {v for q in self.group for v in q.outputs}
        if not made.isdisjoint(e.inputs):
            self.flush()
        x, indices = [self.in_memory(self.read(a)) for a in e.inputs]
        self.join(e)
        self.picked[out] = Picked.of(e, x, indices)
        return True

    # ---- views
    def view(self, e: Equation) -> Part:
        name, p, shape = e.name, e.params, e.outputs[0].aval.shape
        x = self.peek(e.inputs[0])
        if isinstance(x, Joined):
            if name == "slice" and set(p["strides"] or (1,)) == {1}:
                for axis, (first, n) in enumerate(zip(p["start_indices"], shape)):
                    x = joined.cut(x, axis, first, n)
                return x
            x = self.read(e.inputs[0])
        if isinstance(x, Value):  # a scalar: in registers until somebody stores it
            if not shape:
                return x
            return self.in_memory(x).view(shape, [0] * len(shape))
        if name == "broadcast_in_dim":
            strides = [0] * len(shape)
            for axis, n, s in zip(p["broadcast_dimensions"], x.shape, x.strides):
                strides[axis] = 0 if n == 1 else s
            return memory.entry(x.view(shape, strides))
        if name in ("reshape", "squeeze"):
            made = x.reshaped(shape)
            return memory.entry(made if made is not None
                               else self.emitter.temporary(x).view(shape, memory.row_major(shape)))
        if name == "transpose":
            return x.view(shape, [x.strides[i] for i in p["permutation"]])
        if name == "slice":
            steps = p["strides"] or [1] * len(shape)
            base = sum(a * s for a, s in zip(p["start_indices"], x.strides))
            return x.view(shape, [s * k for s, k in zip(x.strides, steps)], base)
        if name == "rev":
            axes = p["dimensions"]
            base = sum((x.shape[i] - 1) * x.strides[i] for i in axes)
            return x.view(shape, [-s if i in axes else s for i, s in enumerate(x.strides)], base)
        return x.view(shape, x.strides, self.offset(x, shape, e.inputs[1:]))

    def in_memory(self, x: Entry) -> Memory:
        if isinstance(x, Memory):
            return x
        made = self.emitter.allocate((), x.dtype)
        memory.store(SCALAR, x, made, [])
        return made

    def offset(self, x: Memory, sizes: Sequence[int], starts: Sequence[Atom]) -> Index:
        """Where a window at (clamped) starts begins."""
        base: Index = 0
        for atom, n, k, stride in zip(starts, x.shape, sizes, x.strides):
            if n == k:
                continue
            if isinstance(atom, Literal):
                base = memory.add(base, min(max(int(atom.value), 0), n - k) * stride)
                continue
            where = (atom, n - k, stride)
            if where not in self.offsets:  # (what is read and written at one place is seen to be)
                start = memory.clamped(self.scalar_of(self.read(atom)), n - k)
                self.offsets[where] = memory.times(memory.position(start), stride)
            base = memory.add(base, self.offsets[where])
        return base

    # ---- the rest
    def fold(self, e: Equation) -> Entry:
        x = self.computed(e) or self.read(e.inputs[0])
        assert isinstance(x, Memory | Computed)
        kept = other_axes(len(x.shape), e.params["axes"])
        out = self.emitter.allocate(tuple(x.shape[i] for i in kept), x.dtype)
        reduce(e.name, x, e.params["axes"], out)
        return memory.entry(out)

    def computed(self, e: Equation) -> Computed | None:
        """A fold's operand as what the group computes it of, where nothing else reads it: it takes
        no memory then; None where it lies in memory, its rows are less than a vector, or what it is
        computed of lies in parts (`elementwise` goes from part to part)."""
        alone, mine = {self.position[id(e)]}, list[Equation]()
        for q in reversed(self.group):
            v = q.outputs[0]
            read = self.uses.get(v, ())
            if read and alone.issuperset(read) and v not in self.destinations:
                alone.add(self.position[id(q)])
                mine.append(q)
        out = e.inputs[0].aval
        if not mine or mine[0].outputs[0] is not e.inputs[0] or out.shape[-1] < LEAST_COMPUTED:
            return None
        made = {q.outputs[0] for q in mine}
        if any(isinstance(self.env.get(a), Joined) for q in mine for a in q.inputs
               if isinstance(a, Var)):
            return None
        sources = dict[Atom, Entry | Picked](
            (v, self.picked.pop(v)) for v in made if v in self.picked)
        inside = [q for q in reversed(mine) if q.outputs[0] not in sources]
        self.group = [q for q in self.group if q.outputs[0] not in made]
        self.flush()  # what others read as well is in memory
        for a in dict.fromkeys(a for q in inside for a in q.inputs):
            if a not in made:
                sources[a] = self.read(a)

        def body(b: KernelBuilder, values: Sequence[Value]) -> Value:
            env = dict(zip(sources, values))
            for q in inside:
                env[q.outputs[0]] = self.emitter.apply(b, q, [env[a] for a in q.inputs])
            return env[e.inputs[0]]

        return Computed(out.shape, out.dtype,
                        tuple(_aligned(s, out.shape) for s in sources.values()), body)

    def indexed(self, e: Equation) -> Entry:
        x, *others = [self.in_memory(self.read(a)) for a in e.inputs]
        if len(others) > 1:
            made = self.writable(e, x, others)
            indexing.scatter(e, made, others[0], others[1], elementwise)
        else:
            made = self.emitter.allocate(e.outputs[0].aval.shape, x.dtype)
            indexing.gather(e, x, others[0], made, elementwise)
        return memory.entry(made)

    def writable(self, e: Equation, x: Memory, others: list[Any]) -> Memory:
        """The memory of e's first operand for e to write into: itself where nobody reads it any
        more, else a copy.  others: what e reads meanwhile; views of that memory become copies."""
        self.flush()
        if not self.is_free(e, x):
            return self.emitter.temporary(x)
        others[:] = [self.emitter.temporary(o) if is_of(o, x) else o for o in others]
        return x

    def is_free(self, e: Equation, x: Memory, at: int = 0) -> bool:
        """Whether e may overwrite x, an operand (its first): it is ours, and e reads it last; small
        parts of it that are read later are copied for that."""
        now, a = self.position[id(e)], e.inputs[at]
        mine = any(x.ref is r for r in (*self.owned, *self.emitter.made[self.before:]))
        spread = any(n > 1 and not s for n, s in zip(x.shape, x.strides))  # one number for many
        if not mine or spread or isinstance(a, Literal):
            return False
        later = {v: m for v, m in self.env.items() if is_of(m, x) and self.last_use(v) > now}
        if any(v is a or not isinstance(m, Memory) or FEW * math.prod(m.shape) > math.prod(x.shape)
               for v, m in later.items()):
            return False
        self.env.update({v: self.emitter.temporary(m) for v, m in later.items()
                         if isinstance(m, Memory)})
        return True

    def last_use(self, v: Var) -> int:
        """The last equation that reads a value; their number, if that is the end."""
        end = len(self.p.equations)
        return end if v in self.destinations else max(self.uses.get(v, ()), default=-1)

    def _dot_general(self, e: Equation, args: list[Entry]) -> list[Entry]:
        x, y = [self.in_memory(a) for a in args]
        out = e.outputs[0].aval
        made = self.emitter.allocate(out.shape, out.dtype)
        self.emitter.shell.written(e, [x, y, made], lambda m: dot_general(
            m[0], m[1], m[2], e.params["dimension_numbers"], self.emitter.shell.registers))
        return [memory.entry(made)]

    def _dynamic_update_slice(self, e: Equation, args: list[Entry]) -> list[Entry]:
        x, update = args[:2]
        if isinstance(x, Value):  # the window is the whole of it
            return [update]
        updates = [update]
        made = self.writable(e, x, updates)
        (update,) = updates
        shape = e.inputs[1].aval.shape
        window = made.view(shape, made.strides, self.offset(made, shape, e.inputs[2:]))
        self.emitter.copy(update, window)
        return [made]

    def is_for_update(self, e: Equation) -> bool:
        """Whether e gives what the group computes another shape and an update alone reads it."""
        (x, *_), (out,) = e.inputs, e.outputs
        read = self.uses.get(out, ())
        return (e.name in ("reshape", "broadcast_in_dim", "squeeze") and self.is_alone(x, e)
                and x.aval.size == out.aval.size and len(read) == 1
                and out not in self.destinations and read[0] < len(self.p.equations)
                and self.p.equations[read[0]].name == "dynamic_update_slice"
                and self.p.equations[read[0]].inputs[1] is out)

    def is_alone(self, a: Atom, e: Equation) -> bool:
        """Whether the group computes a value for e alone."""
        return (isinstance(a, Var) and self.uses.get(a) == [self.position[id(e)]]
                and a not in self.destinations and any(q.outputs[0] is a for q in self.group))

    def update_at_once(self, e: Equation) -> bool:
        """Compute an update where it belongs; False where it has to lie in memory before: where
        its operand is read again, or is read at other places than those that are written."""
        x, update, *starts = e.inputs
        if not isinstance(update, Var):
            return False
        reader = self.later.pop(update, e)
        computed = reader.inputs[0] if reader is not e else update
        target = self.env.get(x) if isinstance(x, Var) else None
        if isinstance(computed, Var) and isinstance(target, Memory) and (
                self.is_alone(computed, reader)):
            if not self.is_free(e, target):
                target = self.emitter.temporary(target)
            shape = update.aval.shape
            placed = target.view(shape, target.strides, self.offset(
                target, shape, starts)).reshaped(computed.aval.shape)
            if placed is not None and (placed.shape[-1] == 1 or placed.strides[-1] == 1) and (
                    all(s is None or not is_of(s, target) or is_same(s, placed)
                        for s in self.read_by_group())):
                self.flush({computed: placed})
                self.env[e.outputs[0]] = target
                return True
        if reader is not e:
            self.env[update] = self.view(reader)
        return False

    def read_by_group(self) -> list[Part | Picked | None]:
        """What the group reads (None: what it computes itself)."""
        return [*self.picked.values(), *(self.env.get(a) for q in self.group
                                         for a in q.inputs if isinstance(a, Var))]

    def place(self, v: Var) -> Memory:
        """Memory for a value: where it is wanted, or new."""
        wanted = self.destinations.get(v, ())
        if len(wanted) == 1 and wanted[0].is_dense() and v not in self.written:
            self.written.add(v)
            return wanted[0]
        return self.emitter.allocate(v.aval.shape, v.aval.dtype)

    def _concatenate(self, e: Equation, args: list[Entry]) -> list[Entry]:
        axis, made, at = e.params["dimension"], self.place(e.outputs[0]), 0
        for a, part in zip(e.inputs, args):
            self.emitter.copy(part, made.view(a.aval.shape, made.strides, at * made.strides[axis]))
            at += a.aval.shape[axis]
        return [made]

    def join_lazily(self, e: Equation) -> bool:
        """A concatenation, or a padding that only adds, as its parts; False where a copy is
        better."""
        out = e.outputs[0].aval
        parts = [self.peek(a) for a in e.inputs]
        if e.name == "concatenate":
            axis = e.params["dimension"]
            made = joined.join(axis, parts, [a.aval.shape[axis] for a in e.inputs], out.shape,
                               out.dtype)
        else:
            made, shape = parts[0], list(e.inputs[0].aval.shape)
            value = self.scalar_of(self.read(e.inputs[1]))
            if any(min(config) < 0 or config[2] for config in e.params["padding_config"]):
                return False
            for axis, (low, high, _) in enumerate(e.params["padding_config"]):
                n, shape[axis] = shape[axis], low + shape[axis] + high
                made = joined.join(axis, [value, made, value], [low, n, high], shape, out.dtype)
        if isinstance(made, Joined) and not joined.pays(made):
            return False
        self.env[e.outputs[0]] = made
        return True

    def _pad(self, e: Equation, args: list[Entry]) -> list[Entry]:
        x, value = args
        if isinstance(x, Value):
            return [x]
        out, made = e.outputs[0].aval, self.place(e.outputs[0])
        self.emitter.copy(self.scalar_of(value), made)
        source, target = x, made
        for axis, (low, _, interior) in enumerate(e.params["padding_config"]):
            step = interior + 1
            first = max(0, -(low // step))  # of the elements that are not cut off
            last = min(x.shape[axis], (out.shape[axis] - 1 - low) // step + 1)
            if last <= first:
                return [made]
            source = source.cut(axis, first, last - first, 1)
            target = target.cut(axis, low + first * step, last - first, step)
        self.emitter.copy(source, target)
        return [made]

    def _iota(self, e: Equation, args: list[Entry]) -> list[Entry]:
        """The numbers along one axis, repeated along the others: these take no memory."""
        from calque.lowering.math import convert
        axis, out = e.params["dimension"], e.outputs[0].aval
        made = self.emitter.allocate((out.shape[axis],), out.dtype)

        def put(b: KernelBuilder, i: Index) -> None:
            memory.store(b, convert(b, memory.numbers(b, i), out.dtype), made, [i])

        memory.strip(made.size, memory.widest(out.dtype), put)
        return [made.view(out.shape, [int(i == axis) for i in range(len(out.shape))])]

    def _fft_axis(self, e: Equation, args: list[Entry]) -> list[Entry]:
        return list(fft_in_loops.transform(
            self.emitter, e, [x for x in args if isinstance(x, Memory)]))

    def decomposed(self, e: Equation, args: list[Entry]) -> list[Part]:
        return self.emitter.run(decomposition(e), args)

    def _jit(self, e: Equation, args: list[Entry]) -> list[Part]:
        return self.emitter.run(e.params["jaxpr"], args)

    def _scan(self, e: Equation, args: list[Entry]) -> list[Entry]:
        """What it carries stays where it lies, if nobody else reads that."""
        self.flush()
        return self.emitter.emit_loop(self.emitter, e, args, [
            home or self.emitter.allocate(v.aval.shape, v.aval.dtype)
            for home, v in zip(homes.of_loop(e, args, self.is_free), e.outputs)])

    _while = _scan

    def _cond(self, e: Equation, args: list[Entry]) -> list[Entry]:
        """Branches write into an operand that one of them returns, if nobody else reads that, else
        into memory of their own; the first whose number is reached runs."""
        self.flush()
        which, *operands = args
        kept = homes.of_branches(e, args, self.is_free)
        made = [home or self.emitter.allocate(v.aval.shape or (1,), v.aval.dtype)
                for home, v in zip(kept, e.outputs)]
        owned = [home.ref for home in kept if home is not None]

        def branch(p: Program) -> None:
            outs = self.emitter.run(p, operands, owned=owned)
            moving = [(out, m) for out, m in zip(outs, made) if not is_same(out, m)]
            for out, m in homes.apart(moving, owned, self.emitter.temporary):
                self.emitter.copy(out, m)

        branches = e.params["branches"]
        index = self.scalar_of(which)
        self.choose(index, list(branches), 0, branch)
        return [memory.load(SCALAR, m, [0]) if not v.aval.shape else m
                for v, m in zip(e.outputs, made)]

    def choose(self, index: Value, branches: list[Program], at: int,
               branch: Callable[[Program], None]) -> None:
        if len(branches) == 1:
            branch(branches[0])
            return
        from calque.lowering.emit import mlir
        ir = mlir.ir()
        op = mlir.operation("scf.if", [], [(index <= at).ir], regions=2)
        for region, part in zip(op.regions, (branches[:1], branches[1:])):
            with ir.InsertionPoint(region.blocks.append()):
                self.choose(index, part, at + 1, branch)
                mlir.operation("scf.yield", [], [])


def _aligned(s: P, shape: Shape) -> P | Value:
    """Rank-0 operands among arrays are scalars."""
    if isinstance(s, Memory) and s.shape != shape:
        return memory.load(SCALAR, s, [0] * s.ndim)
    return s


def apply(b: KernelBuilder, e: Equation, values: Sequence[Value]) -> Value:
    """An elementwise equation on registers, by the rule of its primitive."""
    ctx = Context(b)
    for a, v in zip(e.inputs, values):
        if isinstance(a, Literal):
            ctx.literals[v] = a
    out: Value = rules[e.name](
        Op(list(values), e.params, [ShapedArray((), e.outputs[0].aval.dtype)], ctx))
    return out
