"""Dispatches that are linked here: an ordinary compile's bits, and IREE links what is refused."""
from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.compiler import compile as compiling
from calque.lowering.compiler import elf_link, host_module
from calque.lowering.compiler import process as compiler_process
from calque.lowering.compiler import server as compiler_server
from calque.lowering.passes import loops
from calque.lowering.target.targets import parse_target


def values(*shape: int, dtype: Any = np.float32) -> Any:
    return (np.random.default_rng(7).standard_normal(shape) * 3).astype(dtype)


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def several(x: Any, y: Any) -> Any:
    return {"moved": x.T, "sum": x.sum(), "product": x @ y, "all": jnp.tanh(x @ y).sum(0)}


def network(w: Any, x: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]).sum()


EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)
POSITIVE = (lambda a: a @ a.T + 30 * np.eye(30, dtype=np.float32))(values(30, 30))
BY_IREE = "linked by IREE"
LINKED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "edges": (lambda x: (jnp.sin(x), x + x, jnp.sort(x), jnp.sign(x)), (EDGES,)),
    "one element": (lambda x: jnp.exp(x) + 1, (values(1),)),
    "a scalar": (jnp.arctan2, (values()[()], values()[()])),
    "odd sizes": (softmax, (values(17, 33),)),
    "size 0 beside others": (lambda x, y: (x.sum(0), y * 2), (values(0, 3), values(5))),
    "several dispatches": (several, (values(9, 5), values(5, 7))),
    "gradient": (calque.grad(network), ([values(6, 5), values(5, 3)], values(4, 6))),
    "second derivative": (calque.hessian(lambda x: jnp.log1p(x * x).prod()), (values(5),)),
    "halves": (lambda x: (x * 2 + 1).sum(1), (values(3, 40, dtype=np.float16),)),
    "integers": (lambda x: (lax.div(x, 3), x << 2, x.max()), (values(41).astype(np.int32),)),
    "bytes and booleans": (lambda x: (x > 3, (x + x).astype(jnp.int8)),
                           (np.arange(21, dtype=np.uint8),)),
    "complex": (lambda x: jnp.exp(x * 1j), (values(13),)),
    "a carry of many arrays": (
        lambda *xs: calque.lax.fori_loop(0, 5, lambda i, c: tuple(
            jnp.sin(v) + w for v, w in zip(c, c[1:] + c[:1])), xs),
        tuple(np.random.default_rng(i).normal(size=4).astype(np.float32) for i in range(40))),
    "nothing is an argument": (
        lambda: (jnp.sin(jnp.arange(8.0)) * 2, jnp.arange(12).reshape(3, 4).sum(0)), ()),
    "C kernels": (lambda a: (jnp.linalg.cholesky(a), a @ a), (POSITIVE,)),
    "more C kernels": (lambda a: (jnp.linalg.cholesky(a), jnp.linalg.eigh(a), jnp.fft.fft(a),
                                  a @ a), (POSITIVE,)),
    "above the limit of inline calls": (lambda x: (jnp.tanh(x) * x, x.sum()),
                                        (values(600_001),)),
}


def answers(f: Callable[..., Any], args: Any, **options: Any) -> list[tuple[str, bytes]]:
    """Dtypes and bits of the results of a fresh compile."""
    calque.clear_caches()
    leaves = [np.asarray(v) for v in calque.tree.leaves(calque.jit(f, **options)(*args))]
    return [(f"{v.dtype}{v.shape}", v.tobytes()) for v in leaves]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CALQUE_CACHE", "0")
    compiling._short_counts.clear()
    yield
    compiling._short_counts.clear()
    calque.clear_caches()


def same(f: Callable[..., Any], args: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Both ways give the same bits; the counts of shortcuts."""
    compiling._short_counts.clear()
    monkeypatch.setenv("CALQUE_SHORTCUTS", "0")
    plain = answers(f, args)
    assert not compiling.shortcut_counts()
    monkeypatch.delenv("CALQUE_SHORTCUTS")
    assert answers(f, args) == plain
    return compiling.shortcut_counts()


# each compiles twice, without a cache: all tests are linked here, so most of these are slow
DRAWN = {"edges", "nothing is an argument", "C kernels"}


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=() if n in DRAWN else pytest.mark.slow) for n in LINKED])
def test_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = same(*LINKED[name], monkeypatch)
    assert counts and not any(BY_IREE in reason for reason in counts)


def test_float64(x64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(6, 7, dtype=np.float64)
    counts = same(several, (x, x.T), monkeypatch)
    assert counts and not any(BY_IREE in reason for reason in counts)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_levels(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.lowering.target.targets import TargetError, runnable_target
    before = calque.config.calque_cpu
    calque.config.update("calque_cpu", level)
    try:
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error))
        same(several, (values(9, 5), values(5, 7)), monkeypatch)
        counts = same(*LINKED["more C kernels"], monkeypatch)
        assert counts and not any(BY_IREE in reason for reason in counts)
    finally:
        calque.config.update("calque_cpu", before)


def test_donated_and_aliased() -> None:
    """In place or not, another Array of the same values stays as it is."""
    step = calque.jit(lambda x, y: (x.at[2].set(7.0) * y, x + y), donate_argnums=0)
    x, y = jnp.arange(2000.0), jnp.ones(2000)
    kept = x + 0
    want = np.arange(2000.0, dtype=np.float32)
    want[2] = 7
    for _ in range(3):
        written, added = step(x, y)
        np.testing.assert_array_equal(written, want)
        np.testing.assert_array_equal(added, np.arange(2000.0) + 1)
        assert x.is_deleted()
        x = kept + 0
    same = calque.jit(lambda x, y: (x + y, x))(y, y)
    np.testing.assert_array_equal(same[0], np.full(2000, 2.0))
    np.testing.assert_array_equal(same[1], y)


def test_nothing_to_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants, loops on the host and arguments that are results have dispatches or none."""
    assert answers(lambda x: x, (EDGES,)) == answers(lambda: EDGES, ())

    def loop(x: Any) -> Any:  # (how often is known at the call)
        return lax.while_loop(lambda v: v.sum() < 1e6, lambda v: jnp.sin(v) + v @ v.T @ v + 1, x)

    monkeypatch.setattr("calque.lowering.passes.loops.enabled", False)
    x = np.full((40, 40), 0.1, np.float32)
    (kind, bits), = answers(loop, (x,))
    assert kind == "float32(40, 40)" and np.frombuffer(bits, np.float32).sum() >= 1e6
    assert not any(BY_IREE in reason for reason in compiling.shortcut_counts())


@pytest.mark.parametrize("known", [True, False], ids=["ours", "refused"])
def test_calls_of_the_c_library(known: bool, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:
    """fmodf, which IREE's own loops call, is ours; where the linker has none, IREE compiles the
    program again, and has one."""
    monkeypatch.setattr(loops, "enabled", False)
    monkeypatch.setenv("CALQUE_LOG", "compile")
    monkeypatch.setenv("CALQUE_COMPILE", "inside")
    if not known:
        monkeypatch.delitem(compiler_server._sibling("elf_link").LIBRARY, "fmodf")
    x = values(40)
    (_, bits), (_, more) = answers(lambda x: (jnp.fmod(x, 0.7), x + 1), (x,))
    np.testing.assert_array_equal(np.frombuffer(bits, np.float32), np.fmod(x, np.float32(0.7)))
    np.testing.assert_array_equal(np.frombuffer(more, np.float32), x + 1)
    reason = "linked by IREE: Refused: undefined symbol fmodf"
    assert compiling.shortcut_counts().get(reason, 0) == (0 if known else 1)
    assert (f"calque: not by the shortcut: {reason}" in capsys.readouterr().err) != known


def test_who_links_otherwise() -> None:
    target = parse_target("cpu:x86-64-v3")
    assert compiling.SHORTCUTS in compiling.all_flags(target)
    assert compiling.SHORTCUTS not in compiling.all_flags(
        target, ("--iree-llvmcpu-link-embedded=false",))


def test_a_crash_is_answered_by_one_ordinary_compile(monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bool] = []
    real = compiler_process.request

    def request(source: bytes, flags: tuple[str, ...], *more: Any) -> Any:
        asked.append(compiling.SHORTCUTS in flags)
        if asked[-1]:
            raise compiler_process.Crashed("SIGSEGV", "", "/")
        return real(source, flags, *more)

    monkeypatch.setattr(compiler_process, "request", request)
    monkeypatch.setenv("CALQUE_LOG", "compile")
    (_, bits), = answers(lambda x: x * 2, (np.arange(3, dtype=np.float32),))
    np.testing.assert_array_equal(np.frombuffer(bits, np.float32), [0, 2, 4])
    assert asked == [True, False]
    assert "not by the shortcut: the compiler crashed (SIGSEGV)" in capsys.readouterr().err


def test_which_dispatches_wait_for_others() -> None:
    """Those that touch bytes that others write, also by another slot of the same memory."""
    host = host_module.Host("f", 2, "")
    host.imports = [("in0", 0, 512), ("again", 0, 512), ("in1", 1, 512)]
    slots = {"in0": (0, 0), "again": (1, 0), "in1": (2, 0), "t": (3, 0), "low": (3, 0),
             "high": (3, 256), "over": (3, 128)}

    def touched(reads: list[str], writes: list[str]) -> Any:
        return host_module.Dispatch("f", [], [(*slots[n], 256) for n in (*reads, *writes)],
                                    [True] * len(reads) + [False] * len(writes))

    def waits(*steps: Any) -> bool:
        commands = host_module.Commands([(n, 512) for n in ("in0", "again", "in1", "t")])
        commands.steps += [step if isinstance(step, host_module.Fill) else touched(*step)
                           for step in steps]
        *before, last = host_module.uses(host, commands)
        since = host_module.Touched()
        for uses in before:
            since.add(uses)
        return since.meets(last)

    assert waits((["in0"], ["low"]), (["low"], ["high"]))  # reads what is written
    assert waits((["low"], ["high"]), (["in0"], ["low"]))  # writes what is read
    assert waits(([], ["low"]), ([], ["low"]))
    assert waits(([], ["t"]), (["low"], ["in1"]))  # a part of a whole
    assert waits(([], ["low"]), (["over"], ["in1"]))  # parts that overlap
    assert waits(([], ["in0"]), (["again"], ["low"]))  # one argument, seen twice
    assert not waits((["in0"], ["low"]), (["in0"], ["high"]))  # parts beside each other
    assert not waits((["in0"], ["low"]), (["again", "in1"], ["high"]))  # both read
    fill = host_module.Fill(3, 300, 8, 0, 4)
    assert waits((["high"], []), fill)
    assert not waits((["low"], []), fill)


def test_spans_that_are_touched() -> None:
    """As a map of single bytes has it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        since, bytes_of = host_module.Touched(), {True: set[int](), False: set[int]()}
        for _ in range(12):
            first = int(rng.integers(0, 60))
            end, reads = first + int(rng.integers(1, 12)), bool(rng.integers(0, 2))
            span = set(range(first, end))
            assert since.meets([("t", first, end, reads)]) == bool(
                span & bytes_of[False] or not reads and span & bytes_of[True])
            since.add([("t", first, end, reads)])
            bytes_of[reads] |= span
        for (_, reads), spans in since.spans.items():
            assert all(a[1] < b[0] for a, b in zip(spans, spans[1:]))
            assert sum(b - a for a, b in spans) == len(bytes_of[reads])


def objects(folder: Any, *sources: str) -> list[bytes]:
    """C sources, compiled as the kernels are."""
    files = []
    for i, source in enumerate(sources):
        (folder / f"{i}.c").write_text(source)
        subprocess.run(["cc", "-O1", "-fPIC", "-ffunction-sections", "-c", f"{i}.c", "-o",
                        f"{i}.o"], cwd=folder, check=True)
        files.append((folder / f"{i}.o").read_bytes())
    return files


needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_cc
@pytest.mark.parametrize("sources, word", [
    (["float sinf(float); float query(float x) { return sinf(x); }"], "undefined symbol sinf"),
    (["static _Thread_local int n; int query(int x) { return n += x; }"],
     "symbol|relocation|section"),
    (["int other(void) { return 1; }"], "no function query"),
    (["int f(void); int query(void) { return f(); }", "int f(void) { return 1; }",
      "int f(void) { return 2; }"], "two symbols f"),
    (["static int one(void) { return 1; } static int (*find(void))(void) { return one; }"
      'int f(void) __attribute__((ifunc("find"))); int query(void) { return f(); }'], "indirect"),
    (["static char most[1 << 27]; char *query(void) { return most; }"], "large"),
    (["int n __attribute__((aligned(8192))); int *query(void) { return &n; }"], "alignment")])
def test_objects_that_are_not_known(sources: list[str], word: str, tmp_path: Any) -> None:
    with pytest.raises(elf_link.Refused, match=word):
        elf_link.link(objects(tmp_path, *sources), "query")


@needs_cc
def test_several_objects(tmp_path: Any) -> None:
    """Functions and data of others, statics of one name, weak functions, tables of addresses,
    zeros: loaded by the system's loader, which is stricter than IREE's."""
    elf = elf_link.link(objects(tmp_path, """
        int add(int, int); int given(void); extern const int table[4];
        extern int (*const calls[2])(int); __attribute__((weak)) int other(void) { return 100; }
        static int step(int x) { return x + 1; }
        int weak(void) { return 5; }
        int query(int x) {
          return add(step(x), table[x & 3]) + calls[x & 1](x) + given() + other(); }""", """
        static int step(int x) { return 2 * x; }
        static int zeros[100];
        static int twice(int x) { return step(x) + zeros[x]; }
        static int minus(int x) { return -x; }
        __attribute__((weak)) int weak(void) { return 7; }
        int given(void) { return weak(); }
        int other(void) { return 1000; }
        const int table[4] = {10, 20, 30, 40}; int (*const calls[2])(int) = {twice, minus};
        int add(int a, int b) { return a + b; }
        int unused(void) { extern int nowhere(void); return nowhere(); }"""), "query")
    (tmp_path / "a.so").write_bytes(elf)
    query = getattr(ctypes.CDLL(str(tmp_path / "a.so")), elf_link.EXPORTED)
    assert [query(x) for x in range(4)] == [
        x + 1 + 10 * (x + 1) + (-x if x & 1 else 2 * x) + 5 + 1000 for x in range(4)]


def test_what_is_no_object() -> None:
    with pytest.raises(elf_link.Refused, match="not an x86-64 object"):
        elf_link.link([b"\x7fELF" + bytes(60)], "query")
