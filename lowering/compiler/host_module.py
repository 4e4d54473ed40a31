"""The host's part of a program that is kernels of ours, in the VM dialect, by one template.

To write it in IREE's dialects and let its stages convert it took a third of a small program's
compile, and gave the same for every program that imports its arguments, allocates, runs dispatches
in a row and exports its results.  `Host` says what it does (stream_module.py fills it in), `text`
writes the module.  All operations of a queue are chained one behind the other.  It imports nothing
of calque: the compiler's process reads it.
"""
from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

# IREE's numbers of element types: iree_hal_element_types_t.
_FLOAT, _BRAIN, _COMPLEX, _INTEGER = 0x21, 0x22, 0x23, 0x10
ELEMENTS = {**{f"f{n}": _FLOAT << 24 | n for n in (16, 32, 64)}, "bf16": _BRAIN << 24 | 16,
            "complex<f32>": _COMPLEX << 24 | 64, "complex<f64>": _COMPLEX << 24 | 128,
            "i1": 0x13 << 24 | 8,  # (a boolean, a byte each)
            **{f"i{n}": _INTEGER << 24 | n for n in (8, 16, 32, 64)},
            **{f"si{n}": 0x11 << 24 | n for n in (8, 16, 32, 64)},
            **{f"ui{n}": 0x12 << 24 | n for n in (8, 16, 32, 64)}}


class Dispatch(NamedTuple):
    """A dispatch: int32 constants, (slot, offset, length) of each binding, which are read only."""

    function: str
    constants: list[int]
    bindings: list[tuple[int, int, int]]
    reads: list[bool]


class Fill(NamedTuple):
    """`length` bytes at an offset of a slot become a pattern of so many bytes."""

    slot: int
    offset: int
    length: int
    pattern: int
    width: int


class Commands:
    """What is handed over at once, and the resources behind its slots, with lengths."""

    def __init__(self, slots: list[tuple[str, int]]) -> None:
        self.slots = slots
        self.steps: list[Dispatch | Fill] = []

    def dispatches(self) -> list[Dispatch]:
        return [step for step in self.steps if isinstance(step, Dispatch)]


class Host:
    """What the host does, in order.

    Attributes:
      asserts: (argument, sizes, type of elements); imports: (name, argument, bytes).
      storage: (name, bytes) of memory that the caller gives, as one argument more.
      queue: ('alloca' or 'dealloca', name, bytes), and what is run.
      exports: (name, the memory's name, where in it, bytes, sizes, type of elements).
      results: names of exports, or of arguments ('arg0') that are given back.
    """

    def __init__(self, name: str, arguments: int, reflection: str) -> None:
        self.name, self.arguments, self.reflection = name, arguments, reflection
        self.asserts: list[tuple[int, list[int], int]] = []
        self.imports: list[tuple[str, int, int]] = []
        self.storage: tuple[str, int] | None = None
        self.queue: list[tuple[str, str, int] | Commands] = []
        self.exports: list[tuple[str, str, int, int, list[int], int]] = []
        self.results: list[str] = []


_IMPORTS = """
    vm.import private @hal.buffer.assert(%buffer : !vm.ref<!hal.buffer>, %message : !vm.buffer, %allocator : !vm.ref<!hal.allocator>, %minimum_length : i64, %memory_types : i32, %buffer_usage : i32)
    vm.import private @hal.buffer_view.create(%buffer : !vm.ref<!hal.buffer>, %source_offset : i64, %source_length : i64, %element_type : i32, %encoding_type : i32, %shape : i64 ...) -> !vm.ref<!hal.buffer_view> attributes {nosideeffects}
    vm.import private @hal.buffer_view.assert(%buffer_view : !vm.ref<!hal.buffer_view>, %message : !vm.buffer, %element_type : i32, %encoding_type : i32, %shape : i64 ...)
    vm.import private @hal.buffer_view.buffer(%buffer_view : !vm.ref<!hal.buffer_view>) -> !vm.ref<!hal.buffer> attributes {nosideeffects}
    vm.import private @hal.command_buffer.create(%device : !vm.ref<!hal.device>, %modes : i32, %command_categories : i32, %queue_affinity : i64, %binding_capacity : i32) -> !vm.ref<!hal.command_buffer> attributes {minimum_version = 6 : i32}
    vm.import private @hal.command_buffer.finalize(%command_buffer : !vm.ref<!hal.command_buffer>)
    vm.import private @hal.command_buffer.execution_barrier(%command_buffer : !vm.ref<!hal.command_buffer>, %source_stage_mask : i32, %target_stage_mask : i32, %flags : i64)
    vm.import private @hal.command_buffer.dispatch(%command_buffer : !vm.ref<!hal.command_buffer>, %executable : !vm.ref<!hal.executable>, %function_id : i64, %workgroup_x : i32, %workgroup_y : i32, %workgroup_z : i32, %flags : i64, %constants : i32 ..., %bindings : tuple<i32, i32, !vm.ref<!hal.buffer>, i64, i64> ...) attributes {minimum_version = 7 : i32}
    vm.import private @hal.command_buffer.fill_buffer(%command_buffer : !vm.ref<!hal.command_buffer>, %target_buffer : !vm.ref<!hal.buffer>, %target_offset : i64, %length : i64, %target_buffer_slot : i32, %pattern : i64, %pattern_length : i32, %flags : i64)
    vm.import private @hal.device.allocator(%device : !vm.ref<!hal.device>) -> !vm.ref<!hal.allocator> attributes {nosideeffects}
    vm.import private @hal.device.queue.alloca(%device : !vm.ref<!hal.device>, %queue_affinity : i64, %wait_fence : !vm.ref<!hal.fence>, %signal_fence : !vm.ref<!hal.fence>, %pool : i64, %memory_types : i32, %buffer_usage : i32, %allocation_size : i64, %flags : i64) -> !vm.ref<!hal.buffer>
    vm.import private @hal.device.queue.dealloca(%device : !vm.ref<!hal.device>, %queue_affinity : i64, %wait_fence : !vm.ref<!hal.fence>, %signal_fence : !vm.ref<!hal.fence>, %buffer : !vm.ref<!hal.buffer>, %flags : i64)
    vm.import private @hal.device.queue.execute.indirect(%device : !vm.ref<!hal.device>, %queue_affinity : i64, %wait_fence : !vm.ref<!hal.fence>, %signal_fence : !vm.ref<!hal.fence>, %command_buffer : !vm.ref<!hal.command_buffer>, %flags : i64, %binding_table : tuple<!vm.ref<!hal.buffer>, i64, i64> ...)
    vm.import private @hal.devices.get(%index : i32) -> !vm.ref<!hal.device> attributes {nosideeffects}
    vm.import private @hal.executable.create(%device : !vm.ref<!hal.device>, %queue_affinity : i64, %executable_format : !vm.buffer, %executable_data : !vm.buffer, %constants : !vm.buffer) -> !vm.ref<!hal.executable> attributes {nosideeffects}
    vm.import private @hal.executable.lookup.function(%executable : !vm.ref<!hal.executable>, %function_name : !vm.buffer) -> i64 attributes {nosideeffects, minimum_version = 7 : i32}
    vm.import private @hal.fence.create(%device : !vm.ref<!hal.device>, %flags : i64) -> !vm.ref<!hal.fence>
"""  # noqa: E501 (IREE's own declarations, a line each)
_D, _B, _F, _V, _E, _C, _A = (f"!vm.ref<!hal.{name}>" for name in (
    "device", "buffer", "fence", "buffer_view", "executable", "command_buffer", "allocator"))
_MEMORY, _USAGE, _VISIBLE, _DENSE = 48, 3075, 16, 1  # as IREE writes them for local devices
_TRANSFER_AND_DISPATCH, _BEFORE, _AFTER = 3, 28, 13


class _Body:
    """Lines of a function, and the constants that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, str] = {}
        self.words: dict[int, str] = {}  # the constants' names by their values
        self.longs: dict[int, str] = {}

    def i32(self, value: int) -> str:
        if value not in self.words:
            bits = value - ((value >> 31 & 1) << 32 if value > 0 else 0)
            self.words[value] = name = f"%w{bits}".replace("-", "m")
            self.constants[name] = f"{name} = vm.const.i32 {bits}"
        return self.words[value]

    def i64(self, value: int) -> str:
        if value not in self.longs:
            self.longs[value] = name = f"%l{value}".replace("-", "m")
            self.constants[name] = f"{name} = vm.const.i64 {value}"
        return self.longs[value]

    def rodata(self, name: str) -> str:
        self.constants[f"%{name}"] = f"%{name} = vm.const.ref.rodata @{name} : !vm.buffer"
        return f"%{name}"

    def device(self) -> str:
        self.constants["%device"] = f"%device = vm.global.load.ref @device : {_D}"
        return "%device"

    def written(self, head: str) -> str:
        lines = [f"    {head} {{", *self.constants.values(), *self.lines]
        return "\n      ".join(lines) + "\n    }\n"


def text(host: Host, counts: Mapping[str, tuple[int, int, int]], where: Mapping[str, int],
         elves: Sequence[bytes]) -> str:
    """The module in VM dialect, with workgroup counts by function, and the linked dispatches: in
    which of the shared objects each is."""
    strings = {"format": "embedded-elf-x86_64", "tensor": "tensor"}
    commands = [step for step in host.queue if isinstance(step, Commands)]
    functions = {d.function: f"name_{i}" for i, d in enumerate(
        {d.function: d for c in commands for d in c.dispatches()}.values())}
    strings |= {name: function for function, name in functions.items()}
    strings |= {f"message_{i}": f"input{i}" for i, *_ in host.asserts}
    parts = ["module attributes {vm.toplevel} {\n  vm.module public @calque {", _IMPORTS,
             f"    vm.global.ref private mutable @device : {_D}\n",
             *[f"    vm.global.ref private mutable @executable_{k} : {_E}\n"
               f'    vm.rodata private @elf_{k} <alignment = 64> dense<"0x{elf.hex().upper()}"> : '
               f"vector<{len(elf)}xi8>\n" for k, elf in enumerate(elves)]]
    parts += [f'    vm.rodata private @{name} <alignment = 1> "{value}"\n'
              for name, value in strings.items()]
    start = _Body()
    start.lines += [
        f"%d = vm.call @hal.devices.get({start.i32(0)}) : (i32) -> {_D}",
        f"vm.global.store.ref %d, @device : {_D}", "%no = vm.const.ref.zero : !vm.buffer"]
    for k in range(len(elves)):
        start.lines += [
            f"%e{k} = vm.call @hal.executable.create(%d, {start.i64(-1)}, {start.rodata('format')},"
            f" {start.rodata(f'elf_{k}')}, %no) : ({_D}, i64, !vm.buffer, !vm.buffer, !vm.buffer) "
            f"-> {_E}", f"vm.global.store.ref %e{k}, @executable_{k} : {_E}"]
    for i, step in enumerate(commands):
        parts.append(f"    vm.global.ref private mutable @commands_{i} : {_C}\n")
        parts.append(_recorded(i, host, step, functions, counts, where))
        start.lines += [f"%c{i} = vm.call @record_{i}() : () -> {_C}",
                        f"vm.global.store.ref %c{i}, @commands_{i} : {_C}"]
    start.lines.append("vm.return")
    parts += ["    vm.export @__init\n", start.written("vm.func private @__init()"), _main(host)]
    return "".join([*parts, "  }\n}\n"])


Use = tuple[str | int, int, int, bool]


def uses(host: Host, commands: Commands) -> Iterator[list[Use]]:
    """(memory, where it begins and ends, whether that is only read) of what each step touches.
    Slots may be one argument's."""
    arguments = {name: argument for name, argument, _ in host.imports}
    memory = [arguments.get(name, name) for name, _ in commands.slots]
    for step in commands.steps:
        if isinstance(step, Fill):
            yield [(memory[step.slot], step.offset, step.offset + step.length, False)]
        else:
            yield [(memory[slot], at, at + length, reads)
                   for (slot, at, length), reads in zip(step.bindings, step.reads)]


class Touched:
    """Which bytes are read and which written, as spans that do not overlap, in order."""

    def __init__(self) -> None:
        self.spans: dict[tuple[str | int, bool], list[tuple[int, int]]] = {}

    def meets(self, uses: Sequence[Use]) -> bool:
        """Whether some bytes are also in `uses`, and written by one."""
        return any(self._overlap(memory, first, end, which)
                   for memory, first, end, reads in uses
                   for which in ((False,) if reads else (False, True)))

    def _overlap(self, memory: str | int, first: int, end: int, reads: bool) -> bool:
        spans = self.spans.get((memory, reads), ())
        k = bisect.bisect_left(spans, (end,))
        return k > 0 and spans[k - 1][1] > first

    def add(self, uses: Sequence[Use]) -> None:
        for memory, first, end, reads in uses:
            spans = self.spans.setdefault((memory, reads), [])
            low = bisect.bisect_left(spans, (first,))
            low -= low > 0 and spans[low - 1][1] >= first
            high = bisect.bisect_left(spans, (end + 1,))
            if low < high:
                first, end = min(first, spans[low][0]), max(end, spans[high - 1][1])
            spans[low:high] = [(first, end)]


def _recorded(number: int, host: Host, commands: Commands, functions: Mapping[str, str],
              counts: Mapping[str, tuple[int, int, int]], where: Mapping[str, int]) -> str:
    """The function that records commands: their buffers are given at each call."""
    b = _Body()
    known = {f: functions[f] for f in dict.fromkeys(d.function for d in commands.dispatches())}
    b.lines += [
        *[f"%e{k} = vm.global.load.ref @executable_{k} : {_E}"
          for k in sorted({where[d.function] for d in commands.dispatches()})],
        *[f"%{name}_id = vm.call @hal.executable.lookup.function(%e{where[function]}, "
          f"{b.rodata(name)}) : ({_E}, !vm.buffer) -> i64" for function, name in known.items()],
        f"%null = vm.const.ref.zero : {_B}",
        f"%c = vm.call @hal.command_buffer.create({b.device()}, {b.i32(0)}, "
        f"{b.i32(_TRANSFER_AND_DISPATCH)}, {b.i64(-1)}, {b.i32(len(commands.slots))}) : "
        f"({_D}, i32, i32, i64, i32) -> {_C}"]
    barrier = (f"vm.call @hal.command_buffer.execution_barrier(%c, {b.i32(_BEFORE)}, "
               f"{b.i32(_AFTER)}, {b.i64(0)}) : ({_C}, i32, i32, i64) -> ()")
    since = Touched()  # since the last barrier
    for step, touched in zip(commands.steps, uses(host, commands)):
        if since.meets(touched):
            b.lines.append(barrier)
            since = Touched()
        since.add(touched)
        if isinstance(step, Fill):
            b.lines.append(
                f"vm.call @hal.command_buffer.fill_buffer(%c, %null, {b.i64(step.offset)}, "
                f"{b.i64(step.length)}, {b.i32(step.slot)}, {b.i64(step.pattern)}, "
                f"{b.i32(step.width)}, {b.i64(0)}) : ({_C}, {_B}, i64, i64, i32, i64, i32, i64) "
                "-> ()")
        else:
            bindings = ", ".join(f"({b.i32(0)}, {b.i32(slot)}, %null, {b.i64(at)}, {b.i64(size)})"
                                 for slot, at, size in step.bindings)
            groups = ", ".join(b.i32(n) for n in counts[step.function])
            constants = ", ".join(map(b.i32, step.constants))
            which = f"%e{where[step.function]}, %{functions[step.function]}_id"
            b.lines.append(
                f"vm.call.variadic @hal.command_buffer.dispatch(%c, {which}, "
                f"{groups}, {b.i64(0)}, [{constants}], [{bindings}]) "
                f": ({_C}, {_E}, i64, i32, i32, i32, i64, i32 ..., "
                f"tuple<i32, i32, {_B}, i64, i64> ...)")
    b.lines.append(barrier)
    b.lines += [f"vm.call @hal.command_buffer.finalize(%c) : ({_C}) -> ()", f"vm.return %c : {_C}"]
    return b.written(f"vm.func private @record_{number}() -> {_C}")


def _main(host: Host) -> str:
    b = _Body()
    for i, sizes, element in host.asserts:
        shape = ", ".join(map(b.i64, sizes))
        b.lines.append(
            f"vm.call.variadic @hal.buffer_view.assert(%arg{i}, {b.rodata(f'message_{i}')}, "
            f"{b.i32(element)}, {b.i32(_DENSE)}, [{shape}]) : "
            f"({_V}, !vm.buffer, i32, i32, i64 ...)")
    b.lines.append(f"%allocator = vm.call @hal.device.allocator({b.device()}) : ({_D}) -> {_A}")
    for name, argument, size in host.imports:
        b.lines += [
            f"%b_{name} = vm.call @hal.buffer_view.buffer(%arg{argument}) : ({_V}) -> {_B}",
            f"vm.call @hal.buffer.assert(%b_{name}, {b.rodata('tensor')}, %allocator, "
            f"{b.i64(size)}, {b.i32(_VISIBLE)}, {b.i32(_USAGE)}) : "
            f"({_B}, !vm.buffer, {_A}, i64, i32, i32) -> ()"]
    if host.storage is not None:
        name, size = host.storage
        b.lines.append(
            f"vm.call @hal.buffer.assert(%b_{name}, {b.rodata('tensor')}, %allocator, "
            f"{b.i64(size)}, {b.i32(_VISIBLE)}, {b.i32(_USAGE)}) : "
            f"({_B}, !vm.buffer, {_A}, i64, i32, i32) -> ()")
    wait, signal = "%before", "%after"
    number = 0
    for i, step in enumerate(host.queue):
        after = signal if i == len(host.queue) - 1 else f"%fence_{i}"
        if after != signal:
            b.lines.append(f"{after} = vm.call @hal.fence.create(%device, {b.i64(0)}) : "
                           f"({_D}, i64) -> {_F}")
        head = f"%device, {b.i64(-1)}, {wait}, {after}"
        if isinstance(step, Commands):
            table = ", ".join(f"(%b_{slot}, {b.i64(0)}, {b.i64(size)})"
                              for slot, size in step.slots)
            b.lines += [
                f"%run_{i} = vm.global.load.ref @commands_{number} : {_C}",
                f"vm.call.variadic @hal.device.queue.execute.indirect({head}, %run_{i}, "
                f"{b.i64(0)}, [{table}]) : ({_D}, i64, {_F}, {_F}, {_C}, i64, "
                f"tuple<{_B}, i64, i64> ...)"]
            number += 1
        elif step[0] == "alloca":
            b.lines.append(
                f"%b_{step[1]} = vm.call @hal.device.queue.alloca({head}, {b.i64(0)}, "
                f"{b.i32(_MEMORY)}, {b.i32(_USAGE)}, {b.i64(step[2])}, {b.i64(0)}) : "
                f"({_D}, i64, {_F}, {_F}, i64, i32, i32, i64, i64) -> {_B}")
        else:
            b.lines.append(f"vm.call @hal.device.queue.dealloca({head}, %b_{step[1]}, {b.i64(0)}) "
                           f": ({_D}, i64, {_F}, {_F}, {_B}, i64) -> ()")
        wait = after
    for name, source, at, size, sizes, element in host.exports:
        shape = ", ".join(map(b.i64, sizes))
        b.lines.append(
            f"%{name} = vm.call.variadic @hal.buffer_view.create(%b_{source}, {b.i64(at)}, "
            f"{b.i64(size)}, {b.i32(element)}, {b.i32(_DENSE)}, [{shape}]) : "
            f"({_B}, i64, i64, i32, i32, i64 ...) -> {_V}")
    b.lines.append(f"vm.return {', '.join('%' + r for r in host.results)} : "
                   f"{', '.join([_V] * len(host.results))}")
    arguments = "".join(f"%arg{i}: {_V}, " for i in range(host.arguments))
    if host.storage is not None:
        arguments += f"%b_{host.storage[0]}: {_B}, "
    results = ", ".join([_V] * len(host.results))
    return (f"    vm.export @{host.name} attributes {{iree.abi.stub, {host.reflection}}}\n"
            + b.written(f"vm.func private @{host.name}({arguments}%before: {_F}, %after: {_F}) -> "
                        f"({results}) attributes {{{host.reflection}}}"))
