"""The host's part of a program, written by one template: IREE's stream and hal text -> VM dialect.

IREE's own conversion of it takes a third of a small program's compile, and gives the same for every
program that imports its arguments, allocates, runs dispatches in a row and exports its results.
`read` understands such functions, as IREE prints them after `executable-sources`, and refuses every
line that it does not know; `text` writes the module.  All operations of a queue are chained one
behind the other.  It imports nothing of calque: the compiler's process reads it.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_AT = r"(?: on\(#hal\.device\.affinity<@__device_0>\))?"
_RESOURCE = r"!stream\.resource<(?:external|transient)>"
_LINES = {name: re.compile(pattern + "$") for name, pattern in {
    "constant": r"%(\S+) = arith\.constant (-?\d+) : (?:index|i64|i32|i16|i8)",
    "element": r"%(\S+) = hal\.element_type<(\S+)> : i32",
    "encoding": r"%(\S+) = hal\.encoding_type<dense_row_major> : i32",
    "assert": r'hal\.buffer_view\.assert<%(\w+) : !hal\.buffer_view> message\("(\w+)"\) '
              r"shape\(\[(.*)\]\) type\(%(\S+)\) encoding\(%\S+\)",
    "import": rf"%(\w+) = stream\.tensor\.import{_AT}(?: consume)? %(\w+) : !hal\.buffer_view "
              r"-> tensor<\S+> in !stream\.resource<external>\{%(\S+)\}",
    "fence": rf"%(\w+) = stream\.timepoint\.import{_AT} %(\w+) : \(!hal\.fence\) => "
             r"!stream\.timepoint",
    "join": r"%(\w+) = stream\.timepoint\.join max\((.*)\) => !stream\.timepoint",
    "alloca": rf"%(\w+), %(\w+) = stream\.resource\.alloca uninitialized{_AT} await\(%(\w+)\) => "
              rf"{_RESOURCE}\{{%(\S+)\}} => !stream\.timepoint",
    "dealloca": rf"%(\w+) = stream\.resource\.dealloca{_AT} await\(%(\w+)\) => %(\w+) : "
                rf"{_RESOURCE}\{{%\S+\}} => !stream\.timepoint",
    "subview": rf"%(\w+) = stream\.resource\.subview %(\w+)\[%(\S+)\] : {_RESOURCE}\{{%\S+\}} -> "
               rf"{_RESOURCE}\{{%(\S+)\}}",
    "execute": rf"%(\w+) = stream\.cmd\.execute{_AT} await\(%(\w+)\) => with\((.*)\) \{{",
    "dispatch": r"stream\.cmd\.dispatch @(\w+)::@\w+::@(\w+)(?:\[[^\]]*\])?(?:\((.*) : .*\))? \{",
    "binding": rf"(ro|wo|rw) %(\w+)\[%(\S+) for %(\S+)\] : {_RESOURCE}\{{%\S+\}},?",
    "fill": rf"stream\.cmd\.fill %(\S+), %(\w+)\[%(\S+) for %(\S+)\] : i(8|16|32) -> "
            rf"{_RESOURCE}\{{%\S+\}}",
    "end": r"\}(?: => !stream\.timepoint)?",
    "chain": rf"stream\.timepoint\.chain_external{_AT} %(\w+) => \(%(\w+) : !hal\.fence\)",
    "export": rf"%(\w+) = stream\.tensor\.export{_AT} %(\w+) : tensor<(\S+)> in "
              r"!stream\.resource<external>\{%(\S+)\} -> !hal\.buffer_view",
    "return": r"util\.return (.*) : .*"}.items()}
_HEAD = re.compile(r"util\.func public @(\w+)\(([^)]*)\) -> [^{]*attributes \{iree\.abi\.stub, "
                   r"(iree\.reflection = \{(?:calque\.signature = \"(?:[^\"\\]|\\.)*\", )?"
                   r"iree\.abi\.declaration = \"[^\"]*\", "
                   r"iree\.abi\.model = \"coarse-fences\"\})\} \{$")
_CAPTURE = re.compile(rf"%(\w+) as %(\w+): {_RESOURCE}\{{%(\S+?)\}}(?:, |$)")

# IREE's numbers of element types: iree_hal_element_types_t.
_FLOAT, _BRAIN, _COMPLEX, _INTEGER = 0x21, 0x22, 0x23, 0x10
ELEMENTS = {**{f"f{n}": _FLOAT << 24 | n for n in (16, 32, 64)}, "bf16": _BRAIN << 24 | 16,
            "complex<f32>": _COMPLEX << 24 | 64, "complex<f64>": _COMPLEX << 24 | 128,
            "i1": 0x13 << 24 | 8,  # (a boolean, a byte each)
            **{f"i{n}": _INTEGER << 24 | n for n in (8, 16, 32, 64)},
            **{f"si{n}": 0x11 << 24 | n for n in (8, 16, 32, 64)},
            **{f"ui{n}": 0x12 << 24 | n for n in (8, 16, 32, 64)}}
_TENSOR = re.compile(r"((?:\d+x)*)([a-z]\w*(?:<f\d+>)?)")


class Unknown(Exception):
    """The function has something that the template has not."""


class Dispatch(NamedTuple):
    """A dispatch: constants, (slot, offset, length) of each binding, and which are read only."""

    executable: str
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
    """What the host does, in order; names are those of the text."""

    def __init__(self, name: str, arguments: list[tuple[str, str]], reflection: str) -> None:
        self.name, self.arguments, self.reflection = name, arguments, reflection
        self.asserts: list[tuple[str, str, list[int], int]] = []
        self.imports: list[tuple[str, str, int]] = []
        self.views: dict[str, tuple[str, int]] = {}  # subview -> (whole, offset)
        self.queue: list[tuple[str, str, int] | Commands] = []
        self.exports: list[tuple[str, str, int, list[int], int]] = []
        self.results: list[str] = []


def read(function: str) -> Host:
    """A function as IREE prints it; Unknown, with the line, where it has something else."""
    first, *lines = [line.strip() for line in function.strip().split("\n")]
    head = _HEAD.match(first)
    if head is None or lines.pop() != "}":
        raise Unknown(f"head: {first[:80]}")
    arguments = [tuple(a[1:].split(": ")) for a in head[2].split(", ")]
    if [kind for _, kind in arguments[-2:]] != ["!hal.fence"] * 2 or any(
            kind != "!hal.buffer_view" for _, kind in arguments[:-2]):
        raise Unknown(f"arguments: {head[2][:80]}")
    host = Host(head[1], [(a[0], a[1]) for a in arguments], head[3])
    numbers: dict[str, int] = {}
    slots: dict[str, int] = {}
    depth = 0
    for line in lines:
        name, found = next(((n, m) for n, p in _LINES.items() if (m := p.match(line))), ("", None))
        if found is None:
            raise Unknown(line.partition(" = ")[2][:40] or line[:40])
        try:
            depth = _read_line(host, name, found.groups(), numbers, slots, depth)
        except KeyError as error:
            raise Unknown(f"{error.args[0]} in a {name}") from None
    if not any(isinstance(step, Commands) for step in host.queue) or depth:
        raise Unknown("no commands")
    known = {n for n, _, _ in host.imports} | {s[1] for s in host.queue if not isinstance(
        s, Commands)}
    for whole, _ in host.views.values():
        if whole not in known:
            raise Unknown("a part of a part")
    return host


def _read_line(host: Host, name: str, parts: tuple[str, ...], numbers: dict[str, int],
               slots: dict[str, int], depth: int) -> int:
    """Take a line into `host`; how deep the next one is in commands."""
    if depth and name not in ("dispatch", "binding", "end", "fill"):
        raise Unknown(f"{name} among commands")
    commands = host.queue[-1] if depth else None
    if name == "constant":
        numbers[parts[0]] = int(parts[1])
    elif name == "element":
        numbers[parts[0]] = ELEMENTS[parts[1]]
    elif name == "assert":
        sizes = [numbers[s[1:]] for s in parts[2].split(", ") if s]
        host.asserts.append((parts[0], parts[1], sizes, numbers[parts[3]]))
    elif name == "import":
        host.imports.append((parts[0], parts[1], numbers[parts[2]]))
    elif name == "fence" and parts[1] != host.arguments[-2][0]:
        raise Unknown("a wait for another fence")
    elif name == "alloca":
        host.queue.append(("alloca", parts[0], numbers[parts[3]]))
    elif name == "dealloca":
        host.queue.append(("dealloca", parts[2], 0))
    elif name == "subview":
        host.views[parts[0]] = parts[1], numbers[parts[2]]
    elif name == "execute":
        captures = _CAPTURE.findall(parts[2])
        if len(captures) != parts[2].count(" as "):
            raise Unknown("captures")
        slots.clear()
        slots.update({inner: i for i, (_, inner, _) in enumerate(captures)})
        host.queue.append(Commands([(outer, numbers[size]) for outer, _, size in captures]))
        return 1
    elif name in ("dispatch", "binding", "end", "fill"):
        if not isinstance(commands, Commands):
            raise Unknown("commands outside of an execution")
        return _read_command(commands, name, parts, numbers, slots, depth)
    elif name == "chain" and parts[1] != host.arguments[-1][0]:
        raise Unknown("a signal of another fence")
    elif name == "export":
        kind = _TENSOR.fullmatch(parts[2])
        if kind is None:
            raise Unknown(f"a result of {parts[2][:80]}")
        sizes = [int(n) for n in kind[1].split("x") if n]
        host.exports.append((parts[0], parts[1], numbers[parts[3]], sizes, ELEMENTS[kind[2]]))
    elif name == "return":
        host.results = [r[1:] for r in parts[0].split(", ")]
    return depth


def _read_command(commands: Commands, name: str, parts: tuple[str, ...], numbers: dict[str, int],
                  slots: dict[str, int], depth: int) -> int:
    """A dispatch's bindings are one deeper."""
    if name == "dispatch":
        constants = [numbers[c[1:]] for c in parts[2].split(", ")] if parts[2] else []
        if not all(-1 << 31 <= c < 1 << 32 for c in constants):
            raise Unknown("a constant of more than 32 bits")
        commands.steps.append(Dispatch(parts[0], parts[1], constants, [], []))
        return depth + 1
    if name == "binding":
        dispatch = commands.steps[-1]
        if not isinstance(dispatch, Dispatch):
            raise Unknown("a binding of no dispatch")
        dispatch.bindings.append((slots[parts[1]], numbers[parts[2]], numbers[parts[3]]))
        dispatch.reads.append(parts[0] == "ro")
        return depth
    if name == "fill":
        width = int(parts[4]) // 8
        commands.steps.append(Fill(slots[parts[1]], numbers[parts[2]], numbers[parts[3]],
                                   numbers[parts[0]] % (1 << 8 * width), width))
        return depth
    return depth - 1


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

    def i32(self, value: int) -> str:
        value -= (value >> 31 & 1) << 32 if value > 0 else 0
        name = f"%w{value}".replace("-", "m")
        self.constants[name] = f"{name} = vm.const.i32 {value}"
        return name

    def i64(self, value: int) -> str:
        name = f"%l{value}".replace("-", "m")
        self.constants[name] = f"{name} = vm.const.i64 {value}"
        return name

    def rodata(self, name: str) -> str:
        self.constants[f"%{name}"] = f"%{name} = vm.const.ref.rodata @{name} : !vm.buffer"
        return f"%{name}"

    def device(self) -> str:
        self.constants["%device"] = f"%device = vm.global.load.ref @device : {_D}"
        return "%device"

    def written(self, head: str) -> str:
        lines = [f"    {head} {{", *self.constants.values(), *self.lines]
        return "\n      ".join(lines) + "\n    }\n"


def text(host: Host, counts: Mapping[str, tuple[int, int, int]], elf: bytes) -> str:
    """The module in VM dialect, with workgroup counts by function, and the linked dispatches."""
    strings = {"format": "embedded-elf-x86_64", "tensor": "tensor"}
    commands = [step for step in host.queue if isinstance(step, Commands)]
    functions = {d.function: f"name_{i}" for i, d in enumerate(
        {d.function: d for c in commands for d in c.dispatches()}.values())}
    strings |= {name: function for function, name in functions.items()}
    strings |= {f"message_{i}": a[1] for i, a in enumerate(host.asserts)}
    parts = ["module attributes {vm.toplevel} {\n  vm.module public @calque {", _IMPORTS,
             f"    vm.global.ref private mutable @device : {_D}\n"
             f"    vm.global.ref private mutable @executable : {_E}\n",
             f'    vm.rodata private @elf <alignment = 64> dense<"0x{elf.hex().upper()}"> : '
             f"vector<{len(elf)}xi8>\n"]
    parts += [f'    vm.rodata private @{name} <alignment = 1> "{value}"\n'
              for name, value in strings.items()]
    start = _Body()
    start.lines += [
        f"%d = vm.call @hal.devices.get({start.i32(0)}) : (i32) -> {_D}",
        f"vm.global.store.ref %d, @device : {_D}", "%no = vm.const.ref.zero : !vm.buffer",
        f"%e = vm.call @hal.executable.create(%d, {start.i64(-1)}, {start.rodata('format')}, "
        f"{start.rodata('elf')}, %no) : ({_D}, i64, !vm.buffer, !vm.buffer, !vm.buffer) -> {_E}",
        f"vm.global.store.ref %e, @executable : {_E}"]
    for i, step in enumerate(commands):
        parts.append(f"    vm.global.ref private mutable @commands_{i} : {_C}\n")
        parts.append(_recorded(i, host, step, functions, counts))
        start.lines += [f"%c{i} = vm.call @record_{i}() : () -> {_C}",
                        f"vm.global.store.ref %c{i}, @commands_{i} : {_C}"]
    start.lines.append("vm.return")
    parts += ["    vm.export @__init\n", start.written("vm.func private @__init()"), _main(host)]
    return "".join([*parts, "  }\n}\n"])


Use = tuple[str, int, int, bool]


def uses(host: Host, commands: Commands, step: Dispatch | Fill) -> list[Use]:
    """(memory, where it begins and ends, whether that is only read) of what a step touches.  Slots
    may be parts of one resource, and resources one argument's."""
    arguments = {name: argument for name, argument, _ in host.imports}

    def use(slot: int, offset: int, length: int, reads: bool) -> Use:
        name = commands.slots[slot][0]
        whole, at = host.views.get(name, (name, 0))
        return arguments.get(whole, whole), at + offset, at + offset + length, reads

    if isinstance(step, Fill):
        return [use(step.slot, step.offset, step.length, False)]
    return [use(*binding, reads) for binding, reads in zip(step.bindings, step.reads)]


def meet(xs: list[Use], ys: list[Use]) -> bool:
    """Whether some bytes are in both, and written by one."""
    return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] and not (x[3] and y[3])
               for x in xs for y in ys)


def _recorded(number: int, host: Host, commands: Commands, functions: Mapping[str, str],
              counts: Mapping[str, tuple[int, int, int]]) -> str:
    """The function that records commands: their buffers are given at each call."""
    b = _Body()
    b.lines += [
        f"%e = vm.global.load.ref @executable : {_E}", f"%null = vm.const.ref.zero : {_B}",
        f"%c = vm.call @hal.command_buffer.create({b.device()}, {b.i32(0)}, "
        f"{b.i32(_TRANSFER_AND_DISPATCH)}, {b.i64(-1)}, {b.i32(len(commands.slots))}) : "
        f"({_D}, i32, i32, i64, i32) -> {_C}"]
    barrier = (f"vm.call @hal.command_buffer.execution_barrier(%c, {b.i32(_BEFORE)}, "
               f"{b.i32(_AFTER)}, {b.i64(0)}) : ({_C}, i32, i32, i64) -> ()")
    since: list[Use] = []  # what is touched since the last barrier
    for i, step in enumerate(commands.steps):
        touched = uses(host, commands, step)
        if meet(touched, since):
            b.lines.append(barrier)
            since = []
        since += touched
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
            b.lines += [
                f"%f{i} = vm.call @hal.executable.lookup.function(%e, "
                f"{b.rodata(functions[step.function])}) : ({_E}, !vm.buffer) -> i64",
                f"vm.call.variadic @hal.command_buffer.dispatch(%c, %e, %f{i}, {groups}, "
                f"{b.i64(0)}, [{constants}], [{bindings}]) : ({_C}, {_E}, i64, i32, i32, i32, i64, "
                f"i32 ..., tuple<i32, i32, {_B}, i64, i64> ...)"]
    b.lines.append(barrier)
    b.lines += [f"vm.call @hal.command_buffer.finalize(%c) : ({_C}) -> ()", f"vm.return %c : {_C}"]
    return b.written(f"vm.func private @record_{number}() -> {_C}")


def _main(host: Host) -> str:
    b = _Body()
    for i, (argument, _, sizes, element) in enumerate(host.asserts):
        shape = ", ".join(map(b.i64, sizes))
        b.lines.append(
            f"vm.call.variadic @hal.buffer_view.assert(%{argument}, {b.rodata(f'message_{i}')}, "
            f"{b.i32(element)}, {b.i32(_DENSE)}, [{shape}]) : "
            f"({_V}, !vm.buffer, i32, i32, i64 ...)")
    b.lines.append(f"%allocator = vm.call @hal.device.allocator({b.device()}) : ({_D}) -> {_A}")
    for name, argument, size in host.imports:
        b.lines += [
            f"%b_{name} = vm.call @hal.buffer_view.buffer(%{argument}) : ({_V}) -> {_B}",
            f"vm.call @hal.buffer.assert(%b_{name}, {b.rodata('tensor')}, %allocator, "
            f"{b.i64(size)}, {b.i32(_VISIBLE)}, {b.i32(_USAGE)}) : "
            f"({_B}, !vm.buffer, {_A}, i64, i32, i32) -> ()"]
    wait, signal = (f"%{name}" for name, _ in host.arguments[-2:])
    number = 0
    for i, step in enumerate(host.queue):
        after = signal if i == len(host.queue) - 1 else f"%fence_{i}"
        if after != signal:
            b.lines.append(f"{after} = vm.call @hal.fence.create(%device, {b.i64(0)}) : "
                           f"({_D}, i64) -> {_F}")
        head = f"%device, {b.i64(-1)}, {wait}, {after}"
        if isinstance(step, Commands):
            table = ", ".join(f"({buffer}, {b.i64(at)}, {b.i64(size)})" for slot, size in step.slots
                              for buffer, at in [_place(host, slot)])
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
    for name, source, size, sizes, element in host.exports:
        buffer, at = _place(host, source)
        shape = ", ".join(map(b.i64, sizes))
        b.lines.append(
            f"%{name} = vm.call.variadic @hal.buffer_view.create({buffer}, {b.i64(at)}, "
            f"{b.i64(size)}, {b.i32(element)}, {b.i32(_DENSE)}, [{shape}]) : "
            f"({_B}, i64, i64, i32, i32, i64 ...) -> {_V}")
    b.lines.append(f"vm.return {', '.join('%' + r for r in host.results)} : "
                   f"{', '.join([_V] * len(host.results))}")
    kinds = {"!hal.buffer_view": _V, "!hal.fence": _F}
    arguments = ", ".join(f"%{name}: {kinds[kind]}" for name, kind in host.arguments)
    results = ", ".join([_V] * len(host.results))
    return (f"    vm.export @{host.name} attributes {{iree.abi.stub, {host.reflection}}}\n"
            + b.written(f"vm.func private @{host.name}({arguments}) -> ({results}) "
                        f"attributes {{{host.reflection}}}"))


def _place(host: Host, name: str) -> tuple[str, int]:
    """The buffer behind a resource, and where in it."""
    whole, at = host.views.get(name, (name, 0))
    return f"%b_{whole}", at
