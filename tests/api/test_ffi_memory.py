"""calque.ffi: results in an argument's memory, and kernels with side effects, on the CPU."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import ffi, lax
from calque.api.ffi import METHODS

S = calque.ShapeDtypeStruct
_counter = itertools.count()


def registered(source: str, **options: Any) -> str:
    name = f"memory{next(_counter)}"
    ffi.register_ffi_target(name, ffi.Kernel(source, "f", **options))
    return name


def size(ins: Any, outs: Any, **attributes: Any) -> tuple[Any, ...]:
    return (ins[0].size, *attributes.values())


# y += by in place, and where that was
ADD = registered("""
void f(int *x, int *y, long *at, long n, long by) {
  if (x != y) __builtin_trap();
  for (long i = 0; i < n; ++i) y[i] += by;
  *at = (long)y;
}""", scalars=size)
# a new array, and where that is
MAKE = registered("""
void f(const int *x, int *y, long *at, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i];
  *at = (long)y;
}""", scalars=size)
# x[i] + y[i] into x's memory, spread over groups
SUM = registered("""
void f(int *x, const int *y, int *z, long n, long g, long groups) {
  for (long i = n * g / groups; i < n * (g + 1) / groups; ++i) z[i] = x[i] + y[i];
}""", scalars=size, grid=lambda ins, outs: 3)


def add(x: Any, by: int = 1, method: str | None = None) -> Any:
    return ffi.ffi_call(ADD, (S(x.shape, x.dtype), S((), np.int64)), vmap_method=method,
                        input_output_aliases={0: 0})(x, by=by)


def make(x: Any) -> Any:
    return ffi.ffi_call(MAKE, (S(x.shape, x.dtype), S((), np.int64)))(x)


def sums(x: Any, y: Any) -> Any:
    return ffi.ffi_call(SUM, S(x.shape, x.dtype), input_output_aliases={0: 0})(x, y)


@pytest.mark.parametrize("n", [1, pytest.param(1000, marks=pytest.mark.slow), 300_000])
def test_a_result_is_the_memory_of_a_dead_argument_only(n: int) -> None:
    """Computed and not read again: no copy; read again, an argument, a constant: a copy."""
    xs = [np.arange(n, dtype=np.int32) + 100 * k for k in range(3)]

    def f(a: Any, b: Any, c: Any) -> Any:
        y, made = make(a)
        z, at = add(y, 5)
        kept, _ = make(b)
        given = [add(kept, 5)[0], add(kept, 7)[0], kept]
        return z, *given, add(c, 3)[0], add(jnp.arange(n, dtype=np.int32), 4)[0], made, at
    with calque.enable_x64(True):
        arrays = [jnp.asarray(x) for x in xs]
        *outs, made, at = calque.jit(f)(*arrays)
    assert int(made) == int(at) or n == 1
    a, b, c = xs
    for got, want in zip([*outs, *arrays], (a + 5, b + 5, b + 7, b, c + 3, xs[0] + 4, a, b, c)):
        np.testing.assert_array_equal(got, want)


def test_of_a_donated_argument() -> None:
    with calque.enable_x64(True):
        x = np.arange(1000, dtype=np.int32)
        given = calque.jit(lambda x: x + 0)(x)  # (memory of calque's)
        place = given.unsafe_buffer_pointer()
        z, at = calque.jit(add, donate_argnums=0)(given)
        assert given.is_deleted()
        assert int(at) == place == z.unsafe_buffer_pointer()
        np.testing.assert_array_equal(z, x + 1)


def test_in_place_among_others() -> None:
    """Loops, branches, vmap, grids, views of the operand, one value for two arguments."""
    x = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    with calque.enable_x64(True):
        def f(x: Any) -> Any:
            y = x * 2
            turned = add(y.T)[0]
            scanned, seen = lax.scan(lambda c, row: (add(c)[0] + row, c), jnp.zeros(4, "int32"), x)
            steps = lax.fori_loop(0, 5, lambda i, c: add(c, 10)[0], x + 1)
            walked = lax.while_loop(lambda c: c[0, 0] < 7, lambda c: sums(c, x), x + 1)
            chosen = lax.cond(x[0, 0] == 1, lambda v: add(v)[0], lambda v: v, y)
            twice = sums(y, y)
            part = y[1:]
            return (turned, scanned, seen, steps, walked, chosen, twice, add(part)[0], y,
                    add(add(x + 1)[0])[0])
        got = calque.jit(f)(x)
        y, carry, seen = x * 2, np.zeros(4, np.int32), []
        for row in x:
            seen.append(carry)
            carry = carry + 1 + row
        wants = [y.T + 1, carry, np.stack(seen), x + 51, 6 * x + 1, y + 1, 2 * y, y[1:] + 1, y,
                 x + 3]
        for a, b in zip(got, wants):
            np.testing.assert_array_equal(a, b)
        for method in METHODS:
            inner = calque.vmap(lambda v, method=method: add(v, method=method)[0], in_axes=1)
            if method.startswith("sequential"):
                np.testing.assert_array_equal(calque.jit(inner)(x), x.T + 1)


def random_program(rng: Any) -> Any:
    """f(x, numpy): calls that write, between calls that read, each of any earlier values."""
    steps = [(int(rng.integers(3)), int(rng.integers(i + 1)), int(rng.integers(i + 1)))
             for i in range(12)]
    kept = sorted(rng.choice(13, 4, replace=False).tolist())

    def f(x: Any, numpy: bool) -> Any:
        values = [x]
        for kind, a, b in steps:
            p, q = values[a], values[b]
            if kind == 0:
                values.append(p + q if numpy else sums(p, q))
            elif kind == 1:
                values.append(p * 3 - q)
            else:
                values.append(np.concatenate([p[2:], p[:2]]) if numpy
                              else jnp.concatenate([p[2:], p[:2]]))
        return [values[i] for i in kept]
    return f


@pytest.mark.parametrize("counts", [
    (1, 3), pytest.param((1, 4, 5), marks=pytest.mark.slow)], ids=sum)
def test_random_programs(counts: tuple[int, ...]) -> None:
    """Alone, and several in one program: as in NumPy."""
    rng = np.random.default_rng(0)
    for count in counts:
        programs = [random_program(rng) for _ in range(count)]
        x = rng.integers(-9, 9, 5000).astype(np.int32)
        outs = calque.jit(lambda x, programs=programs: [f(x, False) for f in programs])(x)
        for out, f in zip(outs, programs):
            for got, want in zip(out, f(x, True)):
                np.testing.assert_array_equal(got, want)


# ---- side effects
LOG = registered("""
void f(const float *x, float *y, long n, long log, long entry) {
  long *at = (long *)log;
  at[++at[0]] = entry;
  for (long i = 0; i < n; ++i) y[i] = x[i];
}""", scalars=size)
MARK = registered("void f(int *y, long log, long entry) { long *at = (long *)log; "
                  "at[++at[0]] = entry; *y = entry; }",
                  scalars=lambda ins, outs, log, entry: (log, entry))


@pytest.mark.parametrize("n", [3, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_calls_with_side_effects_stay_and_keep_their_order(n: int) -> None:
    """Equal ones, unused ones, in loops, branches and functions; an artifact's would, too."""
    log = np.zeros(100, np.int64)

    def say(x: Any, entry: int, effect: bool = True) -> Any:
        return ffi.ffi_call(LOG, S(x.shape, x.dtype), has_side_effect=effect)(
            x, log=log.ctypes.data, entry=entry)

    def mark(entry: int) -> Any:
        return ffi.ffi_call(MARK, S((), np.int32), has_side_effect=True)(
            log=log.ctypes.data, entry=entry)

    @calque.jit
    def inner(x: Any) -> Any:
        say(x, 4)
        return x

    @calque.jit
    def f(x: Any) -> Any:
        y = say(x + 1, 1)
        say(x, 2)
        say(x, 2)
        mark(3)
        mark(3)
        inner(x)

        def body(i: Any, c: Any) -> Any:
            say(x, 5)
            mark(6)
            return c + 1
        c = lax.fori_loop(0, 3, body, 0)
        lax.cond(x[0] > 0, lambda: (say(x, 7), 0)[1], lambda: (say(x, 8), 0)[1])
        calque.debug.callback(lambda _: log.__setitem__(0, log[0] + 1) or log.__setitem__(
            log[0], 9), x[0])
        say(x, 10)
        say(x, 11, False)  # nobody uses it
        return y, c
    y, c = f(np.ones(n, np.float32))
    np.testing.assert_array_equal(y, np.full(n, 2, np.float32))
    calque.effects_barrier()
    assert log[1:1 + log[0]].tolist() == [1, 2, 2, 3, 3, 4, 5, 6, 5, 6, 5, 6, 7, 9, 10]
    assert int(c) == 3
    log[0] = 0
    calque.jit(calque.vmap(lambda x: ffi.ffi_call(
        LOG, S((), x.dtype), has_side_effect=True, vmap_method="sequential")(
            x, log=log.ctypes.data, entry=12)))(np.ones(3, np.float32)).block_until_ready()
    say(jnp.ones(2), 13).block_until_ready()
    assert log[1:1 + log[0]].tolist() == [12, 12, 12, 13]


# ---- primitives of a client's
def primitive(name: str, result: Any = None) -> Any:
    from calque.extend.core import Primitive
    made = Primitive(name)
    made.def_abstract_eval(result or (
        lambda x, **params: calque.core.ShapedArray(x.shape, x.dtype)))
    return made


def test_ffi_lowering() -> None:
    """As the rule, and called in one; an operand that others read is not written into."""
    from calque.interpreters import mlir
    ffi.register_ffi_target("triple", ffi.Kernel(
        "void f(float *x, float *y, long n, double by) "
        "{ for (long i = 0; i < n; ++i) y[i] = by * x[i]; }", "f", scalars=size))
    whole_p, inner_p = primitive("whole"), primitive("inner")
    rule = ffi.ffi_lowering("triple", operand_output_aliases={0: 0})
    mlir.register_lowering(whole_p, rule)
    mlir.register_lowering(inner_p, lambda ctx, x: rule(ctx, x, by=2.0), platform="cpu")
    x = np.arange(5, dtype=np.float32)
    given = jnp.asarray(x)
    y, z, w = calque.jit(lambda x: (whole_p.bind(x, by=3.0), inner_p.bind(x + 1), x + 1))(given)
    for got, want in ((y, 3 * x), (z, 2 * x + 2), (w, x + 1), (given, x)):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(NotImplementedError, match="result_layouts is not taken"):
        ffi.ffi_lowering("triple", result_layouts=[(0,)])
    nobody_p = primitive("nobody's")
    mlir.register_lowering(nobody_p, ffi.ffi_lowering("nobody"))
    with pytest.raises(ValueError, match="no kernel is registered as 'nobody'"):
        calque.jit(nobody_p.bind)(x)


def test_stablehlo_text_as_a_lowering() -> None:
    from calque.interpreters import mlir
    double_p, first_p = primitive("double"), primitive("first_zero")
    mlir.register_lowering(double_p, """
    func.func @anything(%x: tensor<5xf32>) -> tensor<5xf32> {
      %y = stablehlo.add %x, %x : tensor<5xf32>
      return %y : tensor<5xf32>
    }""")
    mlir.register_lowering(first_p, """
    func.func @f(%x: tensor<5xf32>) -> tensor<5xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<1xf32>
      %i = stablehlo.constant dense<0> : tensor<i32>
      %y = "stablehlo.dynamic_update_slice"(%x, %z, %i)
          : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
      return %y : tensor<5xf32>
    }""")
    x = np.arange(1, 6, dtype=np.float32)
    given = jnp.asarray(x)
    y, z, twice = calque.jit(lambda x: (
        double_p.bind(x), first_p.bind(x), double_p.bind(double_p.bind(x + 1))))(given)
    for got, want in ((y, 2 * x), (z, x * (x > 1)), (twice, 4 * x + 4), (given, x)):
        np.testing.assert_array_equal(got, want)
    bad = {"func.func @f(%x: tensor<5xf32>) -> tensor<5xf32> { return %y : tensor<5xf32> }":
           "double.*: its lowering in StableHLO cannot be read:\n",
           "module { }": "must be one func.func",
           "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }":
           "takes tensor<4xf32>, and the call gives tensor<5xf32>",
           "func.func @f(%x: tensor<5xf32>) -> tensor<1xf32> { %y = stablehlo.constant "
           "dense<0.0> : tensor<1xf32> return %y : tensor<1xf32> }":
           "made values of types tensor<1xf32>"}
    for text, words in bad.items():
        bad_p = primitive("double bad")
        mlir.register_lowering(bad_p, text)
        with pytest.raises((ValueError, TypeError), match=words) as error:
            calque.jit(bad_p.bind)(x)
        assert "test_ffi_memory.py" in str(error.value) and "Fix: " in str(error.value)
    with pytest.raises(ValueError, match="is a text, and gets the params by"):
        calque.jit(lambda x: double_p.bind(x, by=1))(x)


def test_kernels_for_several_platforms_as_a_lowering() -> None:
    from support import ffi_kernels as kernels

    from calque import aot
    from calque.interpreters import mlir
    scale_p = primitive("scale of three")
    for platform in ("cuda", "cpu", "vulkan"):
        mlir.register_lowering(scale_p, kernels.SCALE[platform], platform=platform)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(calque.jit(lambda x: scale_p.bind(x, by=2.0))(x), 2 * x)
    ptx = ffi.Kernel(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f(.param .u64 "
                     "x, .param .u64 y, .param .u32 n, .param .f32 by) { ret; }", "f", block=1,
                     scalars=kernels.size_and("by"))
    mlir.register_lowering(scale_p, ptx, platform="cuda")
    made = aot.compile(lambda x: scale_p.bind(x, by=2.0), S((5,), np.float32),
                       targets=["cpu", "cuda:sm_80"], name="f")
    assert b".visible .entry f(" in made.vmfb
    with pytest.raises(ValueError, match="no kernels for platform 'tpu'"):
        mlir.register_lowering(scale_p, ptx, platform="tpu")


def test_sizes_known_at_the_call_only() -> None:
    """On CPUs without a grid and aliases; else they are refused by name."""
    from support import ffi_kernels as kernels

    from calque import aot
    ffi.register_ffi_target("rows", ffi.Kernel("""
    void f(const float *x, const _Bool *flip, float *sums, float *all, double *work, long rows,
           long width, double by) {
      for (long i = 0; i < rows; ++i) {
        work[i] = 0;
        for (long j = 0; j < width; ++j) work[i] += all[i * width + j] = by * x[i * width + j];
        sums[i] = flip[i] ? -work[i] : work[i];
      }
    }""", "f", scalars=lambda ins, outs, by: (*ins[0].shape, by),
        work=lambda ins, outs, by: [(outs[0].shape, "float64")]))
    ffi.register_ffi_target("rows", kernels.SCALE["vulkan"], "vulkan")

    def f(x: Any, flip: Any) -> Any:
        spec = (S(x.shape[:1], np.float32), S(x.shape, np.float32))
        sums, every = ffi.ffi_call("rows", spec)(x + 1, flip, by=2.0)
        return sums * 2, every
    run = aot.load(aot.compile(f, "f32[b,c]", "bool[b]", name="f").vmfb).f
    for shape in ((1, 1), (5, 3), (3000, 7), (0, 4), (2, 0)):
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        flip = np.arange(shape[0]) % 2 == 0
        total, every = run(x, flip)
        np.testing.assert_array_equal(every.numpy(), 2 * (x + 1))
        np.testing.assert_array_equal(total.numpy(), 2 * np.where(flip, -1, 1).astype(np.float32)
                                      * (2 * (x + 1)).sum(1))
    refused = [(lambda x: sums(x, x), "cpu"), (lambda x: ffi.ffi_call("rows", x)(x),
                                                  "vulkan:lavapipe")]
    for g, target in refused:
        with pytest.raises(NotImplementedError, match="is called with sizes that are known at the "
                                                      "call only.*\n.*\n.*Fix: compile"):
            aot.compile(g, "i32[b]" if target == "cpu" else "f32[b]", targets=target)
