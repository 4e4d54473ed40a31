"""What a program for a CPU asks of whom links it: nothing that neither IREE nor we supply.

IREE links each program with what it calls of musl and of a library of its own (libdevice), and we
give it the C kernels.  LLVM may write calls of anything else (a conversion that the CPU lacks, a
division of 128 bits): such a program does not link, or not everywhere.  Here programs are compiled
to objects, whose symbols and calls are read.  Start reading at `check`.
"""
from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.harness import drawn, function
from support.samples import ANY, ELEMENTWISE, FLOAT8, FLOATS, INEXACT, KEY, ROWS, Row, Sample
from vulkan_share import cases_of

import calque
from calque.core.avals import ShapedArray, aval_of
from calque.core.primitive import registry
from calque.core.program import Program
from calque.lowering.compiler import server as compiler_server
from calque.lowering.compiler.compile import compile_module
from calque.lowering.driver.module import lower
from calque.lowering.kernels.forms import FORMS, form_of
from calque.lowering.passes import loops
from calque.lowering.target.targets import parse_target
from calque.transforms.stage import stage

pytestmark = pytest.mark.usefixtures("x64")

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
OLDEST = "x86-64"  # without SSE4.1, it has floor in software

# What LLVM may leave to musl: f32 `rem` is fmodf on purpose, and the others it writes as it likes.
SUPPLIED = {"memcpy", "memset", "memmove", "fmodf", "fma", "fmaf"}

# What else lies in the two libraries is compiled without optimisation: nobody may call it.
UNUSED = set(compiler_server._UNUSED)

# Conversions of halves in software, in libdevice: which of them programs call.  x86-64-v2 has none
# in hardware; the others have them.  That to f16 makes 0 of denormals: Builder.float16 stands for
# it but where LLVM itself computes whole numbers in f32 (iota, floor).
SOFT = {"__extendhfsf2", "__truncsfhf2", "__extendhfdf2", "__truncdfhf2", "__gnu_h2f_ieee",
        "__gnu_f2h_ieee", "iree_h2f_ieee", "iree_f2h_ieee"}
SOFT_CALLED = {"x86-64": {"__extendhfsf2", "__truncsfhf2"},
               "x86-64-v2": {"__extendhfsf2", "__truncsfhf2"}, "x86-64-v3": set(),
               "x86-64-v4": set(), "aarch64": set()}


# ---- objects
@dataclass(frozen=True, slots=True)
class Symbols:
    """Of an object: names it does not define, and names that its code refers to."""

    undefined: frozenset[str]
    called: frozenset[str]


def read_symbols(data: bytes) -> Symbols:
    """The symbols of a relocatable ELF file of 64 bits (System V ABI, chapters 4 and 5)."""
    assert data[:6] == b"\x7fELF\x02\x01", "no little-endian ELF file of 64 bits"
    start, = struct.unpack_from("<Q", data, 40)
    size, count, _ = struct.unpack_from("<HHH", data, 58)
    # name, type, flags, address, offset, size, link, info, alignment, size of an entry
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]

    def symbols(table: int) -> list[tuple[str, int]]:
        """(name, section) of each; section 0 is none."""
        _, _, _, _, at, length, link, *_ = sections[table]
        names = sections[link][4]
        found = []
        for entry in range(at, at + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, entry)
            text = data[names + name:data.index(b"\0", names + name)]
            found.append((text.decode(), section))
        return found

    undefined, called = set(), set()
    for i, (_, kind, _, _, at, length, link, info, _, _) in enumerate(sections):
        if kind == 2:  # SHT_SYMTAB
            undefined |= {name for name, section in symbols(i) if name and not section}
        elif kind == 4 and sections[info][2] & 4:  # SHT_RELA of code (SHF_EXECINSTR)
            known = symbols(link)
            for entry in range(at, at + length, 24):
                _, which, _ = struct.unpack_from("<QQq", data, entry)
                called.add(known[which >> 32][0])
    return Symbols(frozenset(undefined), frozenset(called))


def symbols_of(source: bytes | str, level: str, options: Sequence[str] = ()) -> Symbols:
    """Those of what IREE compiles a module to, before it is linked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.o")
        compile_module(source, parse_target(f"cpu:{level}"), (
            *options, "--iree-llvmcpu-link-embedded=false", "--iree-llvmcpu-link-static",
            f"--iree-llvmcpu-static-library-output-path={path}"))
        if not path.exists():  # nothing is computed
            return Symbols(frozenset(), frozenset())
        return read_symbols(path.read_bytes())


def wrong(found: Symbols, level: str) -> set[str]:
    """Names that the program may not ask for."""
    supplied = SUPPLIED | ({"floor", "floorf"} if level == OLDEST else set())
    foreign = {n for n in found.undefined if not n.startswith("calque_")} - supplied
    unused = found.called & UNUSED - supplied
    return foreign | unused | (found.called & SOFT - SOFT_CALLED[level])


# ---- programs
@dataclass(frozen=True, slots=True)
class Use:
    """One use of a primitive: a function of arrays of these types, that gives a list of arrays."""

    name: str
    f: Callable[..., Any]
    avals: Sequence[ShapedArray]


def program(uses: Sequence[Use]) -> Program:
    """All of them; what takes the same types takes the same arguments."""
    places: dict[tuple[int, Any], int] = {}
    avals: list[ShapedArray] = []
    chosen = []
    for use in uses:
        for i, a in enumerate(use.avals):
            if (i, a) not in places:
                places[i, a] = len(avals)
                avals.append(a)
        chosen.append([places[i, a] for i, a in enumerate(use.avals)])
    return stage(lambda *xs: [out for use, at in zip(uses, chosen)
                              for out in use.f(*[xs[i] for i in at])], avals)


def check(uses: Sequence[Use], level: str) -> set[str]:
    """Assert that they ask for nothing; what is called in libdevice.  Names what is wrong."""
    lowered = lower(program(uses), parse_target(f"cpu:{level}"))
    if lowered.module is None:
        return set()
    found = symbols_of(lowered.module, level, lowered.options)
    if wrong(found, level):
        assert len(uses) > 1, (
            f"{uses[0].name} at {level} asks for {sorted(wrong(found, level))}")
        half = len(uses) // 2
        for part in (uses[:half], uses[half:]):
            check(part, level)
        raise AssertionError(f"{[u.name for u in uses]} together ask for {wrong(found, level)}")
    return set(found.called & SOFT)


def used(name: str, sample: Sample, dtype: Any, shape: tuple[int, ...] | None = None) -> Use:
    """A sample, in another shape where one is given (no values are needed)."""
    row = ROWS[name]
    avals = [aval_of(a) if shape is None else ShapedArray(shape, a.dtype)
             for a in _words(row, sample, dtype)]
    return Use(f"{name} [{sample.label}] {dtype}", function(row, sample, sample.parameters(dtype)),
               avals)


def _words(row: Row, sample: Sample, dtype: Any) -> Iterator[Any]:
    for o, x in zip(sample.operands, row.arrays(sample, dtype)):
        yield np.zeros((*x.shape, 2), np.uint32) if o.dtype == KEY else np.asarray(x)


SIZE = 21  # vectors, and what is left beside them
HALVES = tuple(map(np.dtype, (np.float16, ml_dtypes.bfloat16)))
PAIRS = [(a, b) for a in ANY + FLOAT8 for b in ANY + FLOAT8 if a != b]


def conversion(source: Any, dtype: Any, shape: tuple[int, ...] = (SIZE,)) -> Use:
    prim = registry["convert_element_type"]
    return Use(f"{source} to {dtype}", lambda x: [prim.bind(
        x, new_dtype=dtype, weak_type=False, sharding=None)], [ShapedArray(shape, source)])


def looped(uses: Sequence[Use], avals: Sequence[ShapedArray]) -> Use:
    """Conversions of the elements in a loop: the bodies of our kernels."""
    def f(*xs: Any) -> list[Any]:
        def body(_: Any, row: Any) -> Any:
            given = {x.dtype: x for x in row}
            return None, [out for use in uses for out in use.f(given[use.avals[0].dtype])]
        return list(calque.lax.scan(body, None, xs)[1])
    return Use(f"in a loop, {', '.join(u.name for u in uses)}", f, avals)


def uses_of(names: Sequence[str]) -> list[Use]:
    """The first sample of each, in every dtype, of vectors."""
    return [used(n, ROWS[n].samples[0], d, (SIZE,)) for n in names for d in ROWS[n].dtypes]


# arithmetic, and functions of many operations
LONG = [n for n in ELEMENTWISE if ROWS[n].dtypes in (INEXACT, FLOATS) and not ROWS[n].specials]
SHORT = [n for n in ELEMENTWISE if n not in (*LONG, "convert_element_type")]


def seed(level: str) -> int:
    return zlib.crc32(level.encode())


def whole_slow(share: float, *levels: str) -> list[Any]:
    """(level, share) of a test: some at a level or two, all at every level with the slow ones."""
    return [*[(level, share) for level in levels],
            *[pytest.param(level, 1, marks=pytest.mark.slow) for level in LEVELS]]


@pytest.mark.parametrize("level, share", whole_slow(0.1, "x86-64-v2", "x86-64-v4"))
def test_conversions_ask_for_nothing(level: str, share: float) -> None:
    """From and to halves, and some of the others."""
    halves = [p for p in PAIRS if set(p) & {*HALVES}]
    others, _ = drawn([p for p in PAIRS if p not in halves], 0.15 * share, seed(level))
    halves, _ = drawn(halves, share, seed(level))
    soft = (HALVES[0], np.dtype(np.float32))
    called = check([conversion(*p) for p in dict.fromkeys((soft, *halves, *others))], level)
    assert called == SOFT_CALLED[level] - {"__truncsfhf2"}


@pytest.mark.parametrize("level, share", whole_slow(0.25, "x86-64-v4"))
def test_conversions_in_loops_ask_for_nothing(level: str, share: float) -> None:
    pairs, _ = drawn([p for p in PAIRS if set(p) & {*HALVES} and not set(p) & {*FLOAT8}],
                     0.6 * share, seed(level))
    check([looped([conversion(*p) for p in pairs],
                  [ShapedArray((300, 3), d) for d in dict.fromkeys(a for a, _ in pairs)])], level)


@pytest.mark.parametrize("level, share", whole_slow(0.12, "x86-64-v2"))
def test_arithmetic_asks_for_nothing(level: str, share: float) -> None:
    short, _ = drawn(uses_of(SHORT), 0.2 * share, seed(level))
    long, _ = drawn(uses_of(LONG), 0.03 * share, seed(level))
    iotas = [used("iota", ROWS["iota"].samples[0], d) for d in ROWS["iota"].dtypes]
    check(short + long + iotas, level)


@pytest.mark.parametrize("name", ["log", "log1p", "exp", "tanh", "sin", "erf"])
def test_functions_of_float32_call_nothing_where_no_instruction_multiplies_and_adds(name) -> None:
    """A call of fmaf for each of their operations made logarithms 25 times as slow."""
    uses = [Use(name, lambda x: [registry[name].bind(x)], [ShapedArray((1000,), np.float32)])]
    lowered = lower(program(uses), parse_target("cpu:x86-64-v2"))
    assert lowered.module is not None
    assert "fmaf" not in symbols_of(lowered.module, "x86-64-v2", lowered.options).undefined


@pytest.mark.slow
def test_the_oldest_cpu_asks_for_nothing_but_floor() -> None:
    names = ("floor", "ceil", "round", "rem", "pow", "polygamma", "sin")
    check([u for u in uses_of(names) if u.avals[0].dtype.kind == "f"], OLDEST)


CONVERT = """func.func @main(%a: tensor<21xi32>) -> tensor<21xbf16> {
  %0 = stablehlo.convert %a : (tensor<21xi32>) -> tensor<21xbf16>
  return %0 : tensor<21xbf16> }"""


def test_what_nobody_supplies_is_seen() -> None:
    """LLVM writes a call where the CPU has no such instruction (math/convert writes bits)."""
    found = symbols_of(CONVERT, "x86-64-v3")
    assert wrong(found, "x86-64-v3") == {"__truncsfbf2"} <= found.called & found.undefined


@pytest.mark.parametrize("level", LEVELS)
def test_calls_are_read(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """f32 `rem` is fmodf in what IREE makes."""
    monkeypatch.setattr(loops, "enabled", False)
    p = program([used("rem", ROWS["rem"].samples[0], np.dtype(np.float32))])
    lowered = lower(p, parse_target(f"cpu:{level}"))
    assert lowered.module is not None
    found = symbols_of(lowered.module, level)
    assert found.undefined == {"fmodf"} <= found.called


def test_what_is_supplied_but_not_for_us_is_seen() -> None:
    level = "x86-64-v3"
    assert wrong(Symbols(frozenset({"fmodf", "calque_lu_f32"}), frozenset({"expf"})), level) == {
        "expf"}
    assert wrong(Symbols(frozenset({"__udivti3"}), frozenset({"__extendhfsf2"})), level) == {
        "__udivti3", "__extendhfsf2"}


# ---- all samples
def has_form(name: str, dtype: Any, level: str) -> bool:
    """Whether anything but the C kernels (not built for aarch64 here, say) computes it."""
    return name not in FORMS or form_of(name, parse_target(f"cpu:{level}"), dtype) != ""


def sampled(names: Sequence[str], level: str) -> Iterator[Use]:
    """Every sample of primitives: the first and the special ones in all dtypes."""
    for name in names:
        every = (*ROWS[name].samples, *ROWS[name].specials)
        for number, dtype in cases_of(name):
            if has_form(name, dtype, level):
                yield used(name, every[number], dtype)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(ROWS), 12))
@pytest.mark.parametrize("level", LEVELS)
def test_samples_ask_for_nothing(level: str, start: int) -> None:
    """Of all primitives."""
    uses = list(sampled(list(ROWS)[start:start + 12], level))
    for at in range(0, len(uses), 60):
        check(uses[at:at + 60], level)


@pytest.mark.slow
@pytest.mark.parametrize("level", (OLDEST, *LEVELS))
def test_all_that_maps_elements_asks_for_nothing(level: str) -> None:
    uses = [*[conversion(*p) for p in PAIRS], *uses_of(SHORT), *uses_of(LONG)]
    for at in range(0, len(uses), 200):
        check(uses[at:at + 200], level)
