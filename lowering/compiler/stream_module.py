"""A program that is dispatches of our own kernels, as IREE's first eight stages leave it.

Such a module has nothing for them to do: no operation to fuse, to tile or to place.  `rewritten`
writes at once what they make of its kernels, word for word (their bindings named as executables'
interfaces name them), so that the compile begins at `executable-configurations`; and `host` says
what the host does, which imports the arguments, allocates, runs the dispatches one after another
and exports the results: no stage of IREE's sees that, host_module.py writes it in the VM dialect.
What it does not know it refuses, line by line, and IREE does it all.  It imports nothing of calque:
the compiler's process reads it.
"""
from __future__ import annotations

import bisect
import functools
import itertools
import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

AFTER = "executable-sources"  # the last of the stages that are not needed

_BYTES = {"i1": 1, **{f"{sign}i{n}": n // 8 for sign in ("", "u") for n in (8, 16, 32, 64)},
          **{f"f{n}": n // 8 for n in (16, 32, 64)}, "bf16": 2,
          **{f"complex<f{n}>": n // 4 for n in (32, 64)}}
_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
_LINE = 64  # bytes: where each array of an allocation begins
# Kernels of so many bytes of text are compiled in two groups, and of so many in four, each in a
# thread of its own.  (A group costs 25 ms beside its kernels, 40,000 bytes of these some 90.)
_IN_TWO, _IN_FOUR = 80_000, 240_000
# (An element's name begins with a letter: where a pattern can match in two ways, a line of many
# types that fails takes for ever.)
_ELEMENT = r"[a-z]\w*(?:<f\d+>)?"
_TENSOR = re.compile(rf"tensor<((?:\d+x)*)({_ELEMENT})>")
_KIND = rf"tensor<(?:\d+x)*{_ELEMENT}>"
_KINDS = rf"{_KIND}(?:, {_KIND})*"

_MADE = rf"(?:{_KIND}|%[\w#]+)"  # a result: new, or in the memory of an operand

# top level
_EXECUTABLE = re.compile(
    r"  stream\.executable private @(\w+)(?: attributes \{hal\.executable\.objects = "  # in C
    r"#hal\.executable\.objects<\{(?:#\w+|#hal\.executable\.target<[^<>]*>) = "
    r"(\[[^\[\]]*\])\}>\})? \{")
_ARGUMENT = rf"%arg\d+: {_KIND}(?: \{{iree\.abi\.output = \d+ : index\}})?"
_STORAGE = r"%arg\d+: !hal\.buffer \{iree\.abi\.transients\}"  # memory in which the program works
_MAIN = re.compile(rf"  func\.func @main\(((?:{_ARGUMENT}(?:, {_ARGUMENT})*)?)"
                   rf"((?:, )?{_STORAGE})?\) -> (?:({_KIND})|\(({_KINDS})\))"
                   r"(?: attributes \{iree\.reflection = \{(calque\.signature = \".*\")\}\})? \{")
# of main
_DISPATCH = re.compile(rf"    %(\w+)(?::(\d+))? = flow\.dispatch @(\w+)::@(\w+)\(([%\w#, -]*)\) : "
                       rf"\(((?:i32, )*(?:{_KINDS})?)\) -> "
                       rf"(?:({_MADE})|\(({_MADE}(?:, {_MADE})*)\))")
_WORD = re.compile(r"    %([\w-]+) = arith\.constant (-?\d+) : i32")
_CONSTANT = re.compile(r"    %(\w+) = stablehlo\.constant dense<([^>\[\]]+)> : (tensor<[a-z]\w*>)")
_SPREAD = re.compile(rf"    %(\w+) = stablehlo\.broadcast_in_dim %(\w+), dims = \[\] : "
                     rf"\((tensor<[a-z]\w*>)\) -> ({_KIND})")
_SAME = re.compile(rf"    %(\w+) = stablehlo\.(?:reshape|bitcast_convert) %([\w#]+) : "
                   rf"\(({_KIND})\) -> ({_KIND})")
_BITS = re.compile(rf"    %(\w+) = flow\.tensor\.bitcast %([\w#]+) : ({_KIND}) -> ({_KIND})")
_RETURN = re.compile(rf"    return ([%\w#, ]+) : ({_KINDS})")
# of an executable
_EXPORT = re.compile(r"    stream\.executable\.export public @(\w+) workgroups\(\) -> "
                     r"\(index, index, index\) \{")
_COUNTS = re.compile(r"      stream\.return (.*) : index, index, index")
_NUMBER = re.compile(r"      (%\S+) = arith\.constant (\d+) : index")
_HEAD = re.compile(r"      func\.func @(\w+)\(%arg0: !stream\.binding"
                   r"((?:, %arg\d+: !stream\.binding)*)((?:, %arg\d+: i32)*)\) \{")
_SUBSPAN = re.compile(r"( +%\S+ = )stream\.binding\.subspan %arg(\d+)\[(%\S+)\] : "
                      r"!stream\.binding -> (memref<[^<>]+>(?:\{%\w+\})?)")
_GROUP = re.compile(r"( +%\S+ = )stream\.dispatch\.workgroup\.id\[([012])\] : index")


class Unknown(Exception):
    """The module has something that is not known here."""


class _Array(NamedTuple):
    """Where a value lies: in an argument, 'made' by a dispatch, or 'filled' with one number; which
    of these it is; and its type."""

    place: str
    number: int
    kind: str

    @property
    def nbytes(self) -> int:
        return _nbytes(self.kind)


class _Dispatch(NamedTuple):
    executable: str
    function: str
    words: list[int]  # int32, which it gives to the kernel
    operands: list[_Array]
    results: list[_Array]  # in memory of their own
    written: tuple[int, ...]  # the operands that become results


class _Program:
    """What main does."""

    def __init__(self, arguments: list[str], kinds: list[str]) -> None:
        self.arguments, self.kinds = arguments, kinds  # (of the results)
        self.has_storage = False
        self.reflection = ""  # what an artifact says of itself
        self.given: dict[int, int] = {}  # results -> the arguments that are memory for them
        self.steps: list[_Dispatch] = []
        self.made: list[_Array] = []
        self.fills: list[tuple[_Array, int, int]] = []  # with so many bits, and these
        self.results: list[_Array] = []
        self.written: set[tuple[str, int]] = set()  # what is a result in an operand's memory


def device(printed: str) -> str:
    """The line of the device, of an empty module that IREE gave one."""
    lines = [line for line in printed.splitlines() if line.startswith("  util.global private @__d")]
    if len(lines) != 1 or '#hal.device.target<"local", [#hal.executable.target<' not in lines[0]:
        raise Unknown("another device")
    return lines[0]


class Rewritten(NamedTuple):
    """A program's kernels as modules after stage AFTER, each for an executable of its own (one, but
    for large programs); what the host does; how many workgroups each kernel has, and in which of
    the modules it is."""

    texts: list[str]
    main: _Program
    counts: dict[str, tuple[int, int, int]]
    where: dict[str, int]


def rewritten(text: str, device: str) -> Rewritten:
    """A program that is kernels of ours; `text` as MLIR prints it, without locations."""
    lines = text.rstrip().split("\n")
    aliases = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    if lines[len(aliases)] != "module @calque {" or lines.pop() != "}":
        raise Unknown("the module's head")
    executables: dict[str, tuple[list[str], str]] = {}  # lines, and the objects they call
    main: _Program | None = None
    for part in _parts(lines[len(aliases) + 1:]):
        found = _EXECUTABLE.fullmatch(part[0])
        if found is not None:
            executables[found[1]] = part, f" objects({found[2]})" if found[2] else ""
        elif main is None:
            main = _read_main(part)
        else:
            raise Unknown("several functions")
    if main is None or not main.steps or {d.executable for d in main.steps} != set(executables):
        raise Unknown("no dispatches, or others' executables")
    target = device[device.index("#hal.executable.target<"):device.rindex("]>")]
    counts: dict[str, tuple[int, int, int]] = {}
    where: dict[str, int] = {}
    how: dict[str, tuple[int, int, int, tuple[int, ...]]] = {}
    for d in main.steps:
        mine = len(d.words), len(d.operands), len(d.results), d.written
        if how.setdefault(d.executable, mine) != mine:
            raise Unknown("dispatches that differ")
    texts = []
    for number, group in enumerate(_groups({name: sum(map(len, part))
                                            for name, (part, _) in executables.items()})):
        written: list[str] = []
        for name in group:
            part, objects = executables[name]
            counted = _counts(name, part)
            counts |= counted
            where |= dict.fromkeys(counted, number)
            written += _executable(name, part, target.removeprefix("#hal.executable.target"),
                                   objects, *how[name])
        texts.append("\n".join([
            *aliases, "module @calque attributes {stream.affinity.default = "
            "#hal.device.affinity<@__device_0>} {", device, *written, "}", ""]))
    return Rewritten(texts, main, counts, where)


def _groups(sizes: dict[str, int]) -> list[list[str]]:
    """Executables (bytes of text by name) in groups of about the same size, which are compiled side
    by side.  How many there are is not the machine's affair: a program is the same bytes on all."""
    total = sum(sizes.values())
    count = 4 if total >= _IN_FOUR else 2 if total >= _IN_TWO else 1
    groups: list[list[str]] = [[] for _ in range(count)]
    filled = [0] * count
    for name in sorted(sizes, key=lambda n: -sizes[n]):  # the largest first
        k = filled.index(min(filled))
        groups[k].append(name)
        filled[k] += sizes[name]
    return [[name for name in sizes if name in set(group)] for group in groups if group]


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    """The operations of a module, each from its first line to the one that closes it."""
    part: list[str] = []
    for line in lines:
        part.append(line)
        if line == "  }":
            yield part
            part = []
    if part:
        raise Unknown(part[0].strip()[:80])


@functools.cache
def _nbytes(kind: str) -> int:
    return math.prod(_sizes(kind)) * _BYTES[_element(kind)]


@functools.cache
def _element(kind: str) -> str:
    """The type of a tensor's elements."""
    found = _TENSOR.fullmatch(kind)
    if found is None or found[2] not in _BYTES:
        raise Unknown(kind)
    return found[2]


def _sizes(kind: str) -> list[int]:
    return [int(n) for n in re.findall(r"(\d+)x", kind.removeprefix("tensor<"))]


# ---- main
def _read_main(lines: list[str]) -> _Program:
    head = _MAIN.fullmatch(lines[0])
    if head is None:
        raise Unknown(lines[0].strip()[:80])
    arguments = _split(head[1])
    kinds = [a.split(": ")[1].partition(" {")[0] for a in arguments]
    p = _Program(kinds, _split(head[3] or head[4]))
    p.has_storage, p.reflection = head[2] is not None, head[5] or ""
    p.given = {int(a.partition(" {iree.abi.output = ")[2].partition(" ")[0]): i
               for i, a in enumerate(arguments) if a.endswith("}")}
    env = {f"arg{i}": _Array("argument", i, kind) for i, kind in enumerate(kinds)}
    numbers: dict[str, tuple[str, str]] = {}
    words: dict[str, int] = {}
    for line in lines[1:-1]:
        if (found := _DISPATCH.fullmatch(line)) is not None:
            _read_dispatch(p, env, numbers, words, found)
        elif (found := _CONSTANT.fullmatch(line)) is not None:
            numbers[found[1]] = found[2], found[3]
        elif (found := _SPREAD.fullmatch(line)) is not None:
            value, kind = numbers.get(found[2], ("", ""))
            if kind != found[3]:
                raise Unknown("a broadcast of no number")
            env[found[1]] = _filled(p, value, found[4])
        elif (found := _SAME.fullmatch(line) or _BITS.fullmatch(line)) is not None:
            x = env.get(found[2])
            if x is None or x.kind != found[3] or x.nbytes != _nbytes(found[4]):
                raise Unknown(line.strip()[:80])
            env[found[1]] = _Array(x.place, x.number, found[4])
        elif (found := _WORD.fullmatch(line)) is not None:
            words[found[1]] = int(found[2])
        elif (found := _RETURN.fullmatch(line)) is not None and line is lines[-2]:
            p.results = [env.get(v, _Array("", 0, "tensor<i1>")) for v in _names(found[1])]
            if any(r.place != "made" and r[:2] not in p.written for r in p.results) or (
                    [r.kind for r in p.results] != p.kinds or _split(found[2]) != p.kinds
                    or len({r[:2] for r in p.results}) != len(p.results)):
                raise Unknown("results that are not each a dispatch's")
            if any(p.results[k].kind != kinds[i] or p.results[k].place == "argument"
                   for k, i in p.given.items()) or any(
                    a.place == "argument" and a.number in p.given.values()
                    for d in p.steps for a in d.operands):
                raise Unknown("memory for other results")
        else:
            raise Unknown(line.strip()[:80])
    if not p.results:
        raise Unknown("no results")
    return p


def _read_dispatch(p: _Program, env: dict[str, _Array], numbers: dict[str, tuple[str, str]],
                   words: dict[str, int], found: re.Match[str]) -> None:
    operands, given = [], []
    for name, kind in zip(_names(found[5]), _split(found[6]), strict=True):
        if kind == "i32":
            if name not in words:
                raise Unknown(f"a number: {found[0].strip()[:80]}")
            given.append(words[name])
            continue
        if name in numbers:
            env[name] = _filled(p, *numbers.pop(name))
        if name not in env or env[name].kind != kind:
            raise Unknown(f"an operand: {found[0].strip()[:80]}")
        operands.append(env[name])
    results: list[_Array] = []
    made: list[_Array] = []
    written: list[int] = []
    for kind in _split(found[7] or found[8]):
        if kind.startswith("%"):
            written.append(_overwritten(env, operands, env.get(kind[1:]), found[0]))
            results.append(operands[written[-1]])
        else:
            results.append(_Array("made", len(p.made) + len(made), kind))
            made.append(results[-1])
    if int(found[2] or 1) != len(results) or len(set(written)) != len(written) or not all(
            a.nbytes for a in (*operands, *results)):
        raise Unknown(f"a dispatch: {found[0].strip()[:80]}")
    p.made += made
    p.written |= {operands[k][:2] for k in written}
    p.steps.append(_Dispatch(found[3], found[4], given, operands, made, tuple(written)))
    for i, result in enumerate(results):
        env[found[1] if found[2] is None else f"{found[1]}#{i}"] = result


def _overwritten(env: dict[str, _Array], operands: Sequence[_Array], x: _Array | None,
                 line: str) -> int:
    """The operand that a dispatch writes into: nothing may read any more what it was."""
    here = [k for k, a in enumerate(operands) if x is not None and a[:2] == x[:2]]
    if x is None or len(here) != 1 or operands[here[0]].kind != x.kind:
        raise Unknown(f"an operand that is written: {line.strip()[:80]}")
    for name in [name for name, a in env.items() if a[:2] == x[:2]]:
        del env[name]
    return here[0]


def _filled(p: _Program, value: str, kind: str) -> _Array:
    """An array of one number everywhere."""
    found = _TENSOR.fullmatch(kind)
    element = "" if found is None else found[2]
    width = 8 * _BYTES.get(element, 0)
    if value.startswith("0x"):
        bits = int(value, 16)
    elif element in _FLOATS:
        bits = int.from_bytes(struct.pack(_FLOATS[element], float(value)), "little")
    elif element == "bf16":  # (what is printed is one)
        bits = int.from_bytes(struct.pack("<f", float(value))[2:], "little")
    elif value in ("true", "false"):
        bits = int(value == "true")
    elif element.lstrip("u").startswith("i") and re.fullmatch(r"-?\d+", value):
        bits = int(value) % (1 << width)
    else:
        raise Unknown(f"a number of {kind}")
    if width == 64 and bits >> 32 == bits % (1 << 32):
        width, bits = 32, bits >> 32
    if width > 32:
        raise Unknown("a number of 64 bits")  # IREE writes those by a dispatch
    made = _Array("filled", len(p.fills), kind)
    p.fills.append((made, width, bits))
    return made


def _split(kinds: str) -> list[str]:
    return kinds.split(", ") if kinds else []


def _names(text: str) -> list[str]:
    return [v.removeprefix("%") for v in _split(text)]


# ---- executables
def _export(name: str, lines: list[str]) -> tuple[re.Match[str], re.Match[str], int]:
    """Its name, its workgroups and the line that ends it, of the one kernel of an executable."""
    export = _EXPORT.fullmatch(lines[1])
    end = lines.index("    }")
    counts = _COUNTS.fullmatch(lines[end - 1])
    if export is None or counts is None or not all(
            _NUMBER.fullmatch(line) for line in lines[2:end - 1]):
        raise Unknown(f"executable {name}")
    return export, counts, end


def _counts(name: str, lines: list[str]) -> dict[str, tuple[int, int, int]]:
    export, counts, end = _export(name, lines)
    numbers = {m[1]: int(m[2]) for m in map(_NUMBER.fullmatch, lines[2:end - 1]) if m is not None}
    try:
        x, y, z = (numbers[v] for v in counts[1].split(", "))
    except (KeyError, ValueError):
        raise Unknown(f"workgroups of {name}") from None
    return {export[1]: (x, y, z)}


def _executable(name: str, lines: list[str], target: str, objects: str, words: int, operands: int,
                results: int, written: Sequence[int]) -> Iterator[str]:
    """An executable as executables' interfaces are written: its operands are only read, but for
    those that are written."""
    kinds = ["Indirect" if n >= operands or n in written else '"ReadOnly|Indirect"'
             for n in range(operands + results)]
    bindings = [f"#hal.pipeline.binding<storage_buffer, {kind}>" for kind in kinds]
    constants = f"constants = {words}, " if words else ""
    layout = f"<{constants}bindings = [{', '.join(bindings)}], flags = Indirect>"
    export, counts, end = _export(name, lines)
    if lines[end + 1] != "    builtin.module {" or lines[-2:] != ["    }", "  }"]:
        raise Unknown(f"executable {name}")
    yield f"  hal.executable public @{name} {{"  # (it is kept without a user)
    yield f"    hal.executable.variant public @embedded_elf_x86_64 target({target}){objects} {{"
    yield (f"    hal.executable.export public @{export[1]} ordinal(0) layout(#hal.pipeline.layout"
           f"{layout}) count(%device: !hal.device) -> (index, index, index) {{")
    # (the host's part has the counts: kernels of other counts are the same code)
    yield "      %one = arith.constant 1 : index"
    yield "      hal.return %one, %one, %one : index, index, index"
    yield "    }"
    yield lines[end + 1]
    heads = 0
    for line in lines[end + 2:-2]:
        if "stream." not in line:
            yield line
            continue
        head, part, group = (p.fullmatch(line) for p in (_HEAD, _SUBSPAN, _GROUP))
        if head is not None and head[1] == export[1] and (
                head[2].count("binding") == len(bindings) - 1) and (
                head[3].count("i32") == words):
            heads += 1
            yield f"      func.func @{head[1]}() {{"
            for k in range(words):
                yield (f"        %arg{len(bindings) + k} = hal.interface.constant.load "
                       f"layout({layout}) ordinal({k}) : i32")
        elif part is not None and heads == 1 and int(part[2]) < len(bindings):
            n = int(part[2])
            yield (f"{part[1]}hal.interface.binding.subspan layout({layout}) binding({n}) "
                   f"alignment({_LINE}) offset({part[3]}) flags({kinds[n]}) : {part[4]}")
        elif group is not None:
            yield f"{group[1]}hal.interface.workgroup.id[{group[2]}] : index"
        else:
            raise Unknown(line.strip()[:80])
    if heads != 1:
        raise Unknown(f"functions of {name}")
    yield from ("    }", "    }", "  }")


# ---- the host
class _Slab:
    """Arrays that are allocated together; `lives`: the first and the last step of each, where
    arrays that are not there together may share memory."""

    def __init__(self, name: str, arrays: Sequence[_Array],
                 lives: dict[tuple[str, int], tuple[int, int]] | None = None) -> None:
        self.name = name
        self.places: dict[tuple[str, int], int] = {}
        self.size = 0
        there: list[tuple[int, int, int]] = []  # where one begins and ends, and its last step
        if lives is not None:
            arrays = sorted(arrays, key=lambda a: lives[a.place, a.number])
        for a in arrays:
            size, at = -(-a.nbytes // _LINE) * _LINE, 0 if lives is not None else self.size
            if lives is not None:
                first, last = lives[a.place, a.number]
                there = [x for x in there if x[2] >= first]
                for begin, end, _ in there:  # (by their places)
                    if at + size <= begin:
                        break
                    if end > at:
                        at = end
                bisect.insort(there, (at, at + size, last))
            self.places[a.place, a.number] = at
            self.size = max(self.size, at + size)
        if len(arrays) == 1 and lives is None:
            self.size = arrays[0].nbytes


def _lives(p: _Program) -> dict[tuple[str, int], tuple[int, int]]:
    """The first and the last step in which what is made, or filled, is there."""
    found = {(a.place, a.number): (0, 0) for a, *_ in p.fills}
    for k, d in enumerate(p.steps):
        for a in (*d.operands, *d.results):
            if a.place != "argument":
                first, _ = found.get((a.place, a.number), (k, k))
                found[a.place, a.number] = first, k
    return found


def host(p: _Program, parts: Any) -> Any:
    """What the host does, as `parts` (host_module) writes it."""
    returned = {r[:2] for r in p.results}
    between = [a for a in (*p.made, *[a for a, *_ in p.fills]) if a[:2] not in returned]
    made = [r for k, r in enumerate(p.results) if k not in p.given and r.place != "argument"]
    slabs = [_Slab("made", made)] if made else []
    if between:
        slabs.append(_Slab("between", between, _lives(p)))
    said = [p.reflection] * bool(p.reflection)
    said += [f'iree.abi.declaration = "{_declaration(p)}"', 'iree.abi.model = "coarse-fences"']
    storage = [s for s in slabs if p.has_storage and s.name == "between"]
    if p.has_storage:
        said.append(f'iree.abi.transients.size.constant = "{sum(s.size for s in storage)}"')
    h = parts.Host("main", len(p.arguments), f"iree.reflection = {{{', '.join(said)}}}")
    if p.has_storage:
        h.storage = ("between", sum(s.size for s in storage))
    given = set(p.given.values())
    for i, kind in enumerate(p.arguments):
        if i not in given:
            h.asserts.append((i, _sizes(kind), parts.ELEMENTS[_element(kind)]))
        h.imports.append((f"in{i}", i, _nbytes(kind)))
    h.queue += [("alloca", s.name, s.size) for s in slabs if s not in storage]
    h.queue.append(_commands(p, slabs, parts))
    h.queue += [("dealloca", s.name, 0) for s in slabs if s.name == "between" and s not in storage]
    for k, r in enumerate(p.results):
        if k in p.given:
            h.results.append(f"arg{p.given[k]}")
            continue
        where = ((f"in{r.number}", 0) if r.place == "argument" else
                 ("made", slabs[0].places[r.place, r.number]))
        h.exports.append((f"out{k}", *where, r.nbytes, _sizes(r.kind),
                          parts.ELEMENTS[_element(r.kind)]))
        h.results.append(f"out{k}")
    return h


def _commands(p: _Program, slabs: Sequence[_Slab], parts: Any) -> Any:
    """The fills and dispatches, and the memory that they touch."""
    read = sorted({*p.given.values(), *[
        a.number for d in p.steps for a in d.operands if a.place == "argument"]})
    commands = parts.Commands([(f"in{i}", _nbytes(p.arguments[i])) for i in read]
                              + [(s.name, s.size) for s in slabs])
    own = {i: k for k, i in enumerate(read)}  # arguments -> slots
    memory = {p.results[k][:2]: i for k, i in p.given.items()}
    places = {a: (len(read) + k, at) for k, s in enumerate(slabs) for a, at in s.places.items()}

    def place(a: _Array) -> tuple[int, int, int]:
        """Its slot, where in that, and its bytes."""
        if a.place == "argument":
            return own[a.number], 0, a.nbytes
        if a[:2] in memory:
            return own[memory[a[:2]]], 0, a.nbytes
        return *places[a.place, a.number], a.nbytes

    commands.steps += [parts.Fill(*place(a), bits, width // 8) for a, width, bits in p.fills]
    commands.steps += [parts.Dispatch(
        d.function, d.words, [*map(place, d.operands), *map(place, d.results)],
        [k not in d.written for k in range(len(d.operands))] + [False] * len(d.results))
        for d in p.steps]
    return commands


def _declaration(p: _Program) -> str:
    memory = {i: k for k, i in p.given.items()}

    def one(name: str, kind: str, given: int | None = None) -> str:
        plain = kind.replace("xui", "xi").replace("<ui", "<i")
        said = [f"iree.abi.encoding = {kind}"] * (plain != kind)
        said += [] if given is None else [f"iree.abi.output = {given} : index"]
        return f"%{name}: {plain}" + (f" {{{', '.join(said)}}}" if said else "")

    given = ", ".join([*[one(f"input{i}", k, memory.get(i)) for i, k in enumerate(p.arguments)],
                       *["!hal.buffer {iree.abi.transients = unit}"] * p.has_storage])
    made = ", ".join(one(f"output{i}", k) for i, k in enumerate(p.kinds))
    return f"async func @main({given}) -> ({made})"
