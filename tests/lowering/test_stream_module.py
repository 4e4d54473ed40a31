"""Programs that are kernels of ours, compiled without IREE's first stages (stream_module.py): the
bits of an ordinary compile, and an ordinary compile of what is refused."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import samples

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.lowering.compiler import compile as compiling
from calque.lowering.compiler import server, stream_module
from calque.lowering.kernels.native import object_of
from calque.lowering.passes import cost, loops
from calque.lowering.target.targets import cpu_target

RNG = np.random.default_rng(5)
X = (RNG.standard_normal((5, 7)) * 3).astype(np.float32)
EDGES = np.array([[0.0, -0.0, np.inf], [-np.inf, np.nan, 1e-40], [3e38, -1, 2]], np.float32)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CALQUE_CACHE", "0")
    yield
    calque.clear_caches()


def answers(f: Callable[..., Any], args: Any, **options: Any) -> list[tuple[str, bytes]]:
    """Dtypes and bits of the results of a fresh compile."""
    calque.clear_caches()
    leaves = [np.asarray(v) for v in calque.tree.leaves(calque.jit(f, **options)(*args))]
    return [(f"{v.dtype}{v.shape}", v.tobytes()) for v in leaves]


def same(f: Callable[..., Any], *args: Any, taken: bool = True, **options: Any) -> list[Any]:
    """The results of f, which have an ordinary compile's bits; whether IREE's stages were left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALQUE_SHORTCUTS", "0")
        plain = answers(f, args, **options)
        patch.delenv("CALQUE_SHORTCUTS")
        compiling._short_counts.clear()
        assert answers(f, args, **options) == plain
    counts = compiling.shortcut_counts()
    assert (set(counts) == {"taken"}) == taken, counts
    return calque.tree.leaves(calque.jit(f)(*args))


def chain(x: Any, many: int = 10) -> Any:
    for i in range(many):
        x = (jnp.sin(x), jnp.tanh(x), jnp.exp(-x), jnp.log1p(x * x))[i % 4] + 1 / (1 + i)
    return x


def layers(x: Any, many: int = 4) -> Any:
    for i in range(many):
        x = jnp.tanh(x @ x) + i
    return x


def looping(x: Any, n: Any) -> Any:
    last, rows = lax.scan(lambda c, r: (jnp.cos(c) + r, c.max()), x[0], x)
    turns = lax.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, v[1] * 0.5 + v[0]), (0, x[1]))
    return last, rows, turns, x.sum(1)


def turning(x: Any) -> Any:
    return lax.fori_loop(0, 60, lambda i, c: jnp.cos(c.T) + c[::-1] * 0.5, x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a chain": (chain, (X[0],)),
    "its gradient, with a cotangent of ones": (calque.grad(lambda x: chain(x).sum()), (X[0],)),
    "layers": (layers, (X[:5, :5],)),
    "gradient of layers": (calque.grad(lambda x: layers(x).sum()), (X[:5, :5],)),
    "loops": (looping, (X, np.int32(3))),
    "edges": (lambda x: (chain(x), x.sum(0), x.max(1), (x < x.T).any(0), x @ x), (EDGES,)),
    "scalars": (lambda x, y: (x.sum() * y, x.prod(), y + x[0, 0] * x.max()), (X, np.float32(2))),
    "size 0 beside others": (lambda x, y: (x.sum(0), y.sum(), y.max(0)), (X[:0], X)),
    "scratch": (turning, (RNG.standard_normal((90, 90)).astype(np.float32),)),
}


# kinds that are beside these
SLOW = ("a chain", "its gradient, with a cotangent of ones", "layers", "scalars", "scratch")


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in PROGRAMS])
def test_the_same_bits(name: str) -> None:
    f, args = PROGRAMS[name]
    same(f, *args)


def test_several_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, what lies between them allocated and given back."""
    def f(x: Any) -> Any:
        rows = lax.fori_loop(0, 70, lambda i, c: jnp.tanh(c @ c) + i, x)
        return lax.fori_loop(0, 70, lambda i, c: c @ rows * 1e-3 - i, rows), rows

    monkeypatch.setattr(cost, "WHOLE_WORK", -1)
    text = calque.jit(f).lower(X[:5, :5]).as_text()
    assert text.count("flow.dispatch @") == 2
    # (x86-64-v2 has no multiply-add: this one calls fmaf of IREE's library, which is refused)
    _, rows = same(f, X[:5, :5], taken=os.environ.get("CALQUE_CPU") != "x86-64-v2")
    want = X[:5, :5].astype(np.float64)
    for i in range(70):
        want = np.tanh(want @ want) + i
    np.testing.assert_allclose(np.asarray(rows), want, rtol=1e-5)  # (as in test_values)


def test_kernels_in_c() -> None:
    """They are linked from the objects that their executables name."""
    if any(object_of(cpu_target(), family) is None for family in ("gemm", "factor")):
        pytest.skip("the package was built without a C compiler")
    x, y = (RNG.standard_normal(s).astype(np.float32) for s in ((300, 300), (300, 300)))
    (got,) = same(lambda x, y: x @ y, x, y)
    want = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(got, want, atol=300 * 6e-8 * np.abs(x).max() * np.abs(y).max())
    packed, _, order = same(lax.linalg.lu, x[:70, :70])
    lower, upper = np.tril(packed, -1) + np.eye(70), np.triu(packed)
    close = 70 * 6e-8 * np.abs(x).max() * 8
    np.testing.assert_allclose(lower @ upper, x[:70, :70][order], atol=close)


@pytest.mark.parametrize("dtype", [
    "bool", "bfloat16", *[pytest.param(d, marks=pytest.mark.slow) for d in (
        "float64", "int8", "uint8", "int16", "int32", "uint32", "float16", "int64", "uint64")]])
def test_dtypes(dtype: str, x64: None) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = (np.arange(35).reshape(5, 7) * 37 % 11).astype(kind)

    def f(x: Any) -> Any:
        return x.sum(0), x.max(1), x.T, (x != x[:1]).any(), jnp.concatenate([x, x[::-1]], 1)

    got = same(f, x)
    np.testing.assert_array_equal(np.asarray(got[1]).astype(float), x.astype(float).max(1))
    np.testing.assert_array_equal(np.asarray(got[2]), x.T)
    np.testing.assert_array_equal(np.asarray(got[4])[:, 7:], x[::-1])


def test_memory_given_for_results() -> None:
    """Large results of queued programs lie in memory that the runtime gives, others beside them."""
    x = RNG.standard_normal((300, 300)).astype(np.float32)

    def f(x: Any) -> Any:
        shares = calque.nn.softmax(x)
        return shares, shares[0], chain(x)

    call = calque.jit(f).lower(x).compile().runtime_executable().lowered.call
    assert call.output_buffers == (0, 2) and not call.run_inline
    shares, _, chained = same(f, x)
    again, chained_again = same(lambda x: f(x)[::2], x)
    np.testing.assert_array_equal(again, shares)
    np.testing.assert_array_equal(chained_again, chained)
    want = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(again, want / want.sum(1, keepdims=True), rtol=4e-6)  # 30 eps


def test_artifacts_say_what_they_are() -> None:
    """Their record, with quotes in it, comes through both ways."""
    compiling._short_counts.clear()
    made = aot.compile(lambda x: {'the "sum"': x.sum(0), "a\\b": x @ x.T}, "f32[5,7]", name="f")
    assert compiling.shortcut_counts() == {"taken": 1}
    f = aot.load(made.vmfb).f
    assert f.record.args[0].shape == (5, 7) and 'the \\"sum\\"' in f.record.text
    product, total = (r.numpy() for r in f(X))
    close = 7 * 9 * 6e-8 * 7  # terms of up to 9, seven of them
    np.testing.assert_allclose(product, X.astype(float) @ X.astype(float).T, atol=close)
    np.testing.assert_allclose(total, X.sum(0, dtype=float), atol=close)


def test_numbers_of_every_width(x64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop begins with is written before it; of 64 bits where both halves are the same."""
    monkeypatch.setattr(cost, "WHOLE_WORK", -1)
    starts = {"bool": True, "int8": -3, "uint8": 200, "int16": -3, "uint32": 2**32 - 1, "int64": -1,
              "float16": -1.5, "bfloat16": -1.5, "float32": np.inf, "float64": 0}

    def f(n: Any) -> Any:
        carry = [jnp.full((30, 30), v, getattr(ml_dtypes, k, k)) for k, v in starts.items()]
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, [x.T for x in c[1]]),
                              (0, carry))[1]

    for x, (name, start) in zip(same(f, 70), starts.items(), strict=True):
        assert x.dtype == name and np.all(np.asarray(x).astype(float) == start)


def test_no_arguments() -> None:
    total, ones = same(lambda: (jnp.arange(6.0).sum(), jnp.ones((2, 3)).max(0)))
    assert total == 15 and np.array_equal(ones, np.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_primitive(part: int, x64: None) -> None:
    """The samples of all primitives that are no keys, with sums beside them, eight at a time: what
    becomes a kernel has the bits of an ordinary compile."""
    found: list[tuple[Any, ...]] = []
    for row in samples.ROWS.values():
        for dtype in row.dtypes:
            for sample in (row.samples[:1] if dtype != row.main else row.samples):
                if dtype in loops.DTYPES and not any(
                        o.dtype is samples.KEY or 0 in o.shape for o in sample.operands):
                    found.append((row, sample, dtype))
    taken = 0
    for row, sample, dtype in found[part::8]:
        xs, params = row.arrays(sample, dtype), sample.parameters(dtype)

        def f(*xs: Any, name: str = row.name, params: Any = params) -> Any:
            outs = samples.bind(name, *xs, **params)
            outs = outs if isinstance(outs, (list, tuple)) else [outs]
            return outs, [x.astype(np.float32).sum() for x in outs if x.dtype != complex]

        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("CALQUE_SHORTCUTS", "0")
                plain = answers(f, xs)
        except Exception:  # (a sample that needs its own way to be called)
            continue
        compiling._short_counts.clear()
        assert answers(f, xs) == plain, f"{row.name} {sample.label} {dtype}"
        taken += compiling.shortcut_counts().get("taken", 0)
    assert taken > 20


def test_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling._short_counts.clear()
    answers(layers, (X[:5, :5],))
    answers(jnp.cumsum, (np.ones((64, 1024), np.float32),))  # (IREE's)
    assert compiling.shortcut_counts() == {"taken": 1, "no kernels of ours": 1}
    monkeypatch.setenv("CALQUE_SHORTCUTS", "0")
    compiling._short_counts.clear()
    answers(layers, (X[:5, :5],))
    assert compiling.shortcut_counts() == {}


def test_values() -> None:
    """Not only the same as before: right."""
    (got,) = same(lambda x: layers(x, 3), X[:4, :4])
    want = X[:4, :4].astype(np.float64)
    for i in range(3):
        want = np.tanh(want @ want) + i
    # (numbers up to 3, a few roundings each; their products through tanh, whose slope is below 1)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)


def test_what_is_shared_and_given_away() -> None:
    """Donated arguments, results of one allocation, arrays on their way from other programs."""
    step = calque.jit(lambda w, n: (w - n.sum(0), (w * n).max(), w + n[0]), donate_argnums=0)
    w = jnp.zeros(7)
    for _ in range(3):
        w, top, other = step(w, X)
        kept = np.asarray(other)
    np.testing.assert_allclose(np.asarray(w), -3 * X.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    del w, top
    np.testing.assert_array_equal(np.asarray(other), kept)
    slow = calque.jit(lambda a: jnp.tanh(a @ a) * 0)(jnp.ones((700, 700)))
    out = calque.jit(lambda a, n: (a.sum() + n.sum(), n.max(0)))(slow[:2, :2], X)
    np.testing.assert_allclose(float(out[0]), X.sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("name, f", [
    ("an operation of IREE's", lambda x: (calque.lax.conv_general_dilated(
        x[None, None].repeat(4, 1), jnp.ones((4, 2, 3, 3)), (1, 1), "SAME",
        feature_group_count=2), x.sum(0))),
    ("a function from elsewhere", lambda x: (jnp.fmod(x, 1.5), x.sum(0), x.max(1)))])
def test_what_is_refused_compiles_as_ever(name: str, f: Callable[..., Any]) -> None:
    calque.clear_caches()
    compiling._short_counts.clear()
    got = [np.asarray(v) for v in calque.tree.leaves(calque.jit(f)(X))]
    for a, b in zip(got, calque.tree.leaves(f(X)), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-5, atol=1e-5)
    if "elsewhere" not in name:
        assert "taken" not in compiling.shortcut_counts()


def test_operands_that_become_results() -> None:
    """A scatter writes into what it is given: an argument that is given away, what a kernel made,
    zeros; what is read afterwards is copied."""
    rows = np.arange(64) % 7 * 3
    table, new = (RNG.standard_normal(s).astype(np.float32) for s in ((512, 768), (64, 768)))
    want = table.astype(np.float64)
    np.add.at(want, rows, new.astype(np.float64))

    def add(table: Any, new: Any) -> Any:
        return table.at[rows].add(new)

    def twice(table: Any, new: Any) -> Any:
        doubled = jnp.tanh(table) * 2
        return add(doubled, new), add(jnp.zeros(table.shape), new), new.sum()

    def read_after(table: Any, new: Any) -> Any:
        doubled = jnp.tanh(table) * 2
        return add(doubled, new), doubled

    compiling._short_counts.clear()
    given = jnp.array(table)
    got = calque.jit(add, donate_argnums=0)(given, new)
    assert compiling.shortcut_counts() == {"taken": 1} and given.is_deleted()
    close = 10 * 6e-8 * np.abs(want).max()  # ten rows are added to one
    np.testing.assert_allclose(np.asarray(got), want, atol=close)
    kept = jnp.array(table)
    (got,) = same(add, kept, new)
    np.testing.assert_array_equal(np.asarray(kept), table)
    np.testing.assert_allclose(np.asarray(got), want, atol=close)
    doubled = 2 * np.tanh(table.astype(np.float64))
    sums, zeros, _ = same(twice, table, new)
    np.testing.assert_allclose(np.asarray(sums), want - table + doubled, atol=close)
    np.testing.assert_allclose(np.asarray(zeros), want - table, atol=close)
    sums, before = same(read_after, table, new)
    np.testing.assert_allclose(np.asarray(sums), want - table + doubled, atol=close)
    np.testing.assert_allclose(np.asarray(before), doubled, atol=close)


WRITES = """  func.func @main(%arg0: tensor<10xf32>, %arg1: tensor<10xf32>) -> tensor<10xf32> {
    %0 = flow.dispatch @loop_1::@loop_1(%arg0, %arg1) : (tensor<10xf32>, tensor<10xf32>) -> %arg1
    return %0 : tensor<10xf32>
  }
}
"""


@pytest.mark.parametrize("old, new, word", [
    ("(%arg0, %arg1) :", "(%arg1, %arg1) :", "operand that is written"),
    ("return %0", "return %arg1", "results"),
    ("    return %0", "    %1 = flow.dispatch @loop_1::@loop_1(%arg1, %0) : (tensor<10xf32>, "
     "tensor<10xf32>) -> %0\n    return %1", "an operand")])
def test_what_was_overwritten_is_not_read(old: str, new: str, word: str) -> None:
    module = MODULE[:MODULE.index("  func.func @main")] + WRITES
    found = stream_module.rewritten(module, DEVICE)
    assert found.texts[0].count('"ReadOnly|Indirect"') > 0 and found.main.steps[0].written == (1,)
    with pytest.raises(stream_module.Unknown, match=word):
        stream_module.rewritten(module.replace(old, new), DEVICE)


def test_kernels_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large program's kernels are several executables, on any machine; the bits are one's."""
    def f(x: Any) -> Any:
        made = []
        for i in range(6):
            x = lax.fori_loop(0, 70 + i, lambda k, c: jnp.tanh(c @ c * 0.1) + k / 70, x)
            made.append(x)
        return made

    monkeypatch.setattr(cost, "WHOLE_WORK", -1)
    monkeypatch.setenv("CALQUE_COMPILE", "inside")
    monkeypatch.setattr(server, "_cores", lambda: 4)
    counts = []
    stream = server._sibling("stream_module")
    groups = stream._groups
    monkeypatch.setattr(stream, "_groups", lambda sizes: counts.append(groups(sizes)) or counts[-1])
    answer = []
    for limits in ((10**9, 10**9), (1, 10**9), (1, 1)):
        monkeypatch.setattr(stream, "_IN_TWO", limits[0])
        monkeypatch.setattr(stream, "_IN_FOUR", limits[1])
        compiling._short_counts.clear()
        answer.append(answers(f, (X[:5, :5],)))
        assert compiling.shortcut_counts() == {"taken": 1}
    assert [len(found) for found in counts] == [1, 2, 4]
    assert all(sorted(n for group in found for n in group) == sorted(counts[0][0])
               for found in counts)
    assert answer[0] == answer[1] == answer[2]
    want = X[:5, :5].astype(np.float64)
    for k in range(70):
        want = np.tanh(want @ want * 0.1) + k / 70
    np.testing.assert_allclose(np.frombuffer(answer[0][0][1], np.float32).reshape(5, 5), want,
                               rtol=1e-5)  # (numbers up to 2; what comes in is mostly forgotten)


def test_a_fault_in_one_group_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE compiles it all, then."""
    monkeypatch.setenv("CALQUE_COMPILE", "inside")
    monkeypatch.setattr(server, "_cores", lambda: 2)  # (whatever there are here)
    stream = server._sibling("stream_module")
    monkeypatch.setattr(stream, "_IN_TWO", 1)
    written = server._Invocations.executable

    def failing(self: Any, text: str) -> bytes:
        if not self.all:  # (the group of another thread)
            raise ValueError("no such kernel")
        return written(self, text)

    monkeypatch.setattr(server._Invocations, "executable", failing)
    monkeypatch.setattr(cost, "WHOLE_WORK", -1)
    compiling._short_counts.clear()

    def f(x: Any) -> Any:
        a = lax.fori_loop(0, 70, lambda k, c: jnp.tanh(c @ c), x)
        return lax.fori_loop(0, 71, lambda k, c: jnp.cos(c @ c), a)

    (got,) = answers(f, (X[:5, :5],))
    assert list(compiling.shortcut_counts()) == ["ValueError: no such kernel"]
    assert np.isfinite(np.frombuffer(got[1], np.float32)).all()


DEVICE = ('  util.global private @__device_0 = #hal.device.target<"local", '
          '[#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver3"}>]> '
          ": !hal.device")
MODULE = """module @calque {
  stream.executable private @loop_1 {
    stream.executable.export public @loop_1 workgroups() -> (index, index, index) {
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func @loop_1(%arg0: !stream.binding, %arg1: !stream.binding) {
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> memref<10xf32>
        return
      }
    }
  }
  func.func @main(%arg0: tensor<10xf32>) -> tensor<10xf32> {
    %0 = flow.dispatch @loop_1::@loop_1(%arg0) : (tensor<10xf32>) -> tensor<10xf32>
    return %0 : tensor<10xf32>
  }
}
"""


@pytest.mark.parametrize("old, new, word", [
    ("-> tensor<10xf32>\n    ret", "-> %arg0\n    ret", "func.func"),  # (a binding less)
    ("-> tensor<10xf32>\n    ret", "-> %other\n    ret", "operand that is written"),
    ("flow.dispatch @loop_1::@loop_1(", "flow.dispatch @loop_1::@loop_1[%c](", "flow.dispatch"),
    ("flow.dispatch @loop_1::@loop_1(%arg0)", "flow.dispatch @loop_1::@loop_1(%other)", "operand"),
    ("return %0 : tensor", "return %arg0 : tensor", "results"),
    ("tensor<10xf32> {\n", "tensor<10xf32> attributes {iree.reflection = {}} {\n", "func.func"),
    ("(%arg0: tensor<10xf32>)", "(%arg0: tensor<?xf32>)", "func.func"),
    ("f32", "complex<f32>", "subspan"),
    ("stream.binding.subspan %arg0[%c0]", "stream.binding.subspan %arg7[%c0]", "subspan"),
    ("        return\n", "        stream.dispatch.other\n        return\n", "dispatch.other"),
    ("%c1 = arith.constant 1 : index", "%c1 = test.count : index", "executable"),
    ("stream.return %c1, %c1", "stream.return %c1, %n", "workgroups"),
    ("module @calque {", "module @other {", "head"),
    ("  func.func @main", "  util.global private @g : i32\n  func.func @main", "util.global"),
    ("@loop_1::@loop_1", "@loop_2::@loop_1", "others' executables")])
def test_lines_that_are_not_known(old: str, new: str, word: str) -> None:
    assert "hal.interface.binding.subspan" in stream_module.rewritten(MODULE, DEVICE).texts[0]
    assert MODULE.replace(old, new) != MODULE
    with pytest.raises(stream_module.Unknown, match=word):
        stream_module.rewritten(MODULE.replace(old, new), DEVICE)


def test_many_arguments() -> None:
    """A line that fails after hundreds of types is refused at once, not after 2^100 tries."""
    many = ", ".join(f"%arg{i}: tensor<2x3x4xf32>" for i in range(300))
    kinds = ", ".join(["tensor<2x3x4xf32>"] * 300)
    for head in (f"({many}, ?)", f"({many}) -> ({kinds})"):
        with pytest.raises(stream_module.Unknown, match="func.func"):
            stream_module.rewritten(MODULE.replace("(%arg0: tensor<10xf32>)", head), DEVICE)
    call = MODULE.replace("(tensor<10xf32>) -> tensor<10xf32>\n", f"({kinds}) -> ({kinds}) ?\n")
    with pytest.raises(stream_module.Unknown, match="flow.dispatch"):
        stream_module.rewritten(call, DEVICE)


def test_another_device() -> None:
    with pytest.raises(stream_module.Unknown, match="device"):
        stream_module.device(DEVICE.replace("local", "cuda"))
    assert stream_module.device(f"module {{\n{DEVICE}\n}}") == DEVICE


def test_arrays_between_share_memory_when_they_are_not_there_together() -> None:
    """No two that live in one step lie in the same bytes."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(1, 30))
        arrays = [stream_module._Array("made", i, f"tensor<{int(rng.integers(1, 400))}xf32>")
                  for i in range(count)]
        lives = {}
        for a in arrays:
            first = int(rng.integers(0, 20))
            lives[a.place, a.number] = first, first + int(rng.integers(0, 8))
        slab = stream_module._Slab("between", arrays, lives)
        spans = [(slab.places[a.place, a.number], a.nbytes, *lives[a.place, a.number])
                 for a in arrays]
        for i, (at, size, first, last) in enumerate(spans):
            assert at % 64 == 0 and at + size <= slab.size
            for other, more, begin, end in spans[:i]:
                assert last < begin or end < first or at + size <= other or other + more <= at
        if count > 1:
            assert slab.size <= sum(-(-a.nbytes // 64) * 64 for a in arrays)
    apart = {("made", 0): (0, 0), ("made", 1): (1, 1)}
    pair = [stream_module._Array("made", i, "tensor<64xf32>") for i in range(2)]
    assert stream_module._Slab("between", pair, apart).size == 256


def test_many_kernels_in_a_row() -> None:
    """A long way of arrays that take each other's places, with some that stay to the end."""
    w = RNG.standard_normal((64, 64)).astype(np.float32) / 8
    x = RNG.standard_normal((96, 64)).astype(np.float32)

    def f(x: Any, w: Any) -> Any:
        kept = []
        for i in range(12):
            x = jnp.tanh(x @ w) + (kept[i // 2] if i % 3 == 2 else 0)
            kept.append(x)
        return x, kept[4] * 2, sum(kept)

    want, kept = x.astype("f8"), list[Any]()
    for i in range(12):
        want = np.tanh(want @ w) + (kept[i // 2] if i % 3 == 2 else 0)
        kept.append(want)
    for got, wanted in zip(calque.jit(f)(x, w), (want, kept[4] * 2, sum(kept)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)  # 12 products of 64 terms


WIDE, PLACES = np.ones((40, 24), np.float32), np.arange(40, dtype=np.int32) % 7
IN_PLACE: dict[str, Callable[..., Any]] = {
    "of zeros": lambda x, i: jnp.zeros((9, 24)).at[i].add(x),
    "twice": lambda x, i: jnp.zeros((9, 24)).at[i].add(x).at[i + 1].max(x * 3),
    "of a copy": lambda x, i: (x.at[i].add(x), x.at[i[::-1]].set(x * 2)),
    "read again": lambda x, i: (lambda y: (y, y.at[i].add(x)))(jnp.cos(x)),
    "the same zeros": lambda x, i: [jnp.zeros((9, 24)).at[k].add(x) for k in (i, i + 2)],
    "read behind": lambda x, i: jnp.sin(jnp.zeros((9, 24)).at[i].add(x)) + 1,
    "not a result": lambda x, i: jnp.zeros((9, 24)).at[i].add(x).sum(0)}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_written_where_it_lies(name: str) -> None:
    """Scatters write into memory that something else was in: no copy is made on the way, and
    nothing reads there what was before."""
    same(IN_PLACE[name], WIDE * np.arange(24, dtype=np.float32), PLACES)
