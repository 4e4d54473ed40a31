"""CALQUE_SHORT_WAY=1: an ordinary compile's bits, and an ordinary compile of what is refused."""
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering import compile as compiling
from calque.lowering import compiler_process, elf_link, host_module


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
TAKEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "edges": (lambda x: (jnp.sin(x), x + x, jnp.sort(x), jnp.sign(x)), (EDGES,)),
    "one element": (lambda x: jnp.exp(x) + 1, (values(1),)),
    "a scalar": (jnp.arctan2, (values()[()], values()[()])),
    "odd sizes": (softmax, (values(17, 33),)),
    "size 0 beside others": (lambda x, y: (x.sum(0), y * 2), (values(0, 3), values(5))),
    "several dispatches": (several, (values(9, 5), values(5, 7))),
    "gradient": (calque.grad(network), ([values(6, 5), values(5, 3)], values(4, 6))),
    "second derivative": (calque.hessian(lambda x: jnp.log1p(x * x).prod()), (values(5),)),
    "halves": (lambda x: (x * 2 + 1).sum(1), (values(3, 40, dtype=np.float16),)),
    "integers": (lambda x: (x // 3, x % 5, x << 2, x.max()), (values(41).astype(np.int32),)),
    "bytes and booleans": (lambda x: (x > 3, (x + x).astype(jnp.int8)),
                           (np.arange(21, dtype=np.uint8),)),
    "complex": (lambda x: jnp.exp(x * 1j), (values(13),)),
    "a carry of many arrays": (
        lambda *xs: calque.lax.fori_loop(0, 5, lambda i, c: tuple(
            jnp.sin(v) + w for v, w in zip(c, c[1:] + c[:1])), xs),
        tuple(np.random.default_rng(i).normal(size=4).astype(np.float32) for i in range(40))),
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
    monkeypatch.setenv("CALQUE_SHORT_WAY", "0")
    compiling._short_counts.clear()
    yield
    compiling._short_counts.clear()
    calque.clear_caches()


# each compiles twice, without a cache: the way is off by default, so most of them are slow tests
DRAWN = {"edges", "gradient", "a carry of many arrays", "bytes and booleans"}


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=() if n in DRAWN else pytest.mark.slow) for n in TAKEN])
def test_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = TAKEN[name]
    plain = answers(f, args)
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    assert answers(f, args) == plain
    assert set(compiling.short_way_counts()) == {"taken"}


def test_float64(x64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(6, 7, dtype=np.float64)
    plain = answers(several, (x, x.T))
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    assert answers(several, (x, x.T)) == plain
    assert set(compiling.short_way_counts()) == {"taken"}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_levels(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.lowering.targets import TargetError, runnable_target
    before = calque.config.calque_cpu
    calque.config.update("calque_cpu", level)
    try:
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error))
        plain = answers(several, (values(9, 5), values(5, 7)))
        monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
        assert answers(several, (values(9, 5), values(5, 7))) == plain
        assert set(compiling.short_way_counts()) == {"taken"}
    finally:
        calque.config.update("calque_cpu", before)


def test_donated_and_aliased(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place or not, another Array of the same values stays as it is."""
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    calque.clear_caches()
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


def test_nothing_is_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of constants goes the ordinary way, and says why."""
    plain = answers(lambda: jnp.sin(jnp.arange(8.0)) * 2, ())
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    assert answers(lambda: jnp.sin(jnp.arange(8.0)) * 2, ()) == plain
    assert "taken" not in compiling.short_way_counts() and compiling.short_way_counts()


def test_what_is_refused_compiles_as_ever(monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    monkeypatch.setenv("CALQUE_LOG", "compile")

    def loop(x: Any) -> Any:  # (a loop on the host: how often is known at the call)
        return lax.while_loop(lambda v: v.sum() < 1e6, lambda v: jnp.sin(v) + v @ v.T @ v + 1, x)

    x = np.full((40, 40), 0.1, np.float32)
    monkeypatch.setattr("calque.lowering.passes.loops.enabled", False)
    (kind, bits), = answers(loop, (x,))
    assert kind == "float32(40, 40)" and np.frombuffer(bits, np.float32).sum() >= 1e6
    counts = compiling.short_way_counts()
    assert "taken" not in counts and sum(counts.values()) == 1
    assert "calque: not by the short way: " + next(iter(counts)) in capsys.readouterr().err


def test_kernels_in_c_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their object files are linked by IREE."""
    a = values(30, 30)
    a = a @ a.T + 30 * np.eye(30, dtype=np.float32)
    plain = answers(jnp.linalg.cholesky, (a,))
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    assert answers(jnp.linalg.cholesky, (a,)) == plain
    assert set(compiling.short_way_counts()) == {"object files"}


def test_a_crash_is_answered_by_one_ordinary_compile(monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bool] = []
    real = compiler_process.request

    def request(source: bytes, flags: tuple[str, ...], *more: Any) -> Any:
        asked.append(compiling.SHORT_WAY in flags)
        if asked[-1]:
            raise compiler_process.Crashed("SIGSEGV", "")
        return real(source, flags, *more)

    monkeypatch.setattr(compiler_process, "request", request)
    monkeypatch.setenv("CALQUE_SHORT_WAY", "1")
    monkeypatch.setenv("CALQUE_LOG", "compile")
    (_, bits), = answers(lambda x: x * 2, (np.arange(3, dtype=np.float32),))
    np.testing.assert_array_equal(np.frombuffer(bits, np.float32), [0, 2, 4])
    assert asked == [True, False]
    assert "not by the short way: the compiler crashed (SIGSEGV)" in capsys.readouterr().err


HOST = """util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.fence, %arg2: !hal.fence) -> !hal.buffer_view attributes {iree.abi.stub, iree.reflection = {iree.abi.declaration = "f", iree.abi.model = "coarse-fences"}} {
    LINE
    util.return %4 : !hal.buffer_view
  }"""  # noqa: E501 (as IREE prints it)


@pytest.mark.parametrize("line, word", [
    ("%3 = scf.if %0 {", "scf.if"),
    ("%0 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg0 : !hal.buffer_view -> "
     "tensor<4xf32> in !stream.resource<external>{%unknown}", "unknown in a import"),
    ("%1 = stream.timepoint.import on(#hal.device.affinity<@__device_0>) %arg2 : (!hal.fence) => "
     "!stream.timepoint", "another fence"),
    ("%e = hal.element_type<f8E4M3FN> : i32", "f8E4M3FN"),
    ("stream.cmd.dispatch @a::@b::@c {", "outside"),
    ("%0 = arith.constant 1 : i32", "no commands")])
def test_lines_that_are_not_known(line: str, word: str) -> None:
    with pytest.raises(host_module.Unknown, match=word):
        host_module.read(HOST.replace("LINE", line))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("source, word", [
    ("float fmodf(float, float); float query(float x) { return fmodf(x, 3); }", "fmodf"),
    ("static _Thread_local int n; int query(int x) { return n += x; }",
     "symbol|relocation|section"),
    ("int other(void) { return 1; }", "no function query")])
def test_objects_that_are_not_known(source: str, word: str, tmp_path: Any) -> None:
    (tmp_path / "a.c").write_text(source)
    subprocess.run(["cc", "-O1", "-fPIC", "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    with pytest.raises(elf_link.Refused, match=word):
        elf_link.link((tmp_path / "a.o").read_bytes(), "query")


def test_what_is_no_object() -> None:
    with pytest.raises(elf_link.Refused, match="not an x86-64 object"):
        elf_link.link(b"\x7fELF" + bytes(60), "query")
