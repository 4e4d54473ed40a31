"""Speed and accuracy of lowering/math beside jax, in one run: writes docs/math_accuracy.md.

    python benchmarks/math_table.py [--write] [--only Special]

Milliseconds per 5 million elements (best of several, all cores), and the largest error: in ulp for
real functions, in eps relative to |result| for complex ones.  Samples and oracles (longdouble,
mpmath) are those of tests/lowering/test_math_*.py.
"""
from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax

from calque.lowering.math import TABLE, pow_const

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lowering"))

import math_harness as harness  # noqa: E402
import test_math_complex as complexes  # noqa: E402
import test_math_float as floats  # noqa: E402
import test_math_special as specials  # noqa: E402

COUNT = 5_000_000
SPECIAL_COUNT = 500_000  # loops of each element: the slowest take 100 ms
JAX_NAMES = {"regularized_incomplete_beta": lax.betainc,
             "exp2": lax.exp2, "log2": jax.numpy.log2, "erf_inv": lax.erf_inv}
TUTORIAL = 50_000_000


def in_jax(name: str) -> Callable[..., Any]:
    return jax.jit(JAX_NAMES.get(name) or getattr(lax, name))


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    """Milliseconds of the fastest of several runs."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def operands(name: str, dtype: np.dtype, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    low, high = {"acosh": (1, 3), "sin": (-10, 10), "cos": (-10, 10), "tan": (-10, 10),
                 "exp": (-5, 5)}.get(name, (0.05, 0.95))

    def one() -> np.ndarray:
        if dtype.kind != "c":
            return rng.uniform(low, high, count).astype(dtype)
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return harness.complex_array(*rng.normal(size=(2, count)).astype(part))

    if name == "polygamma":
        return [np.resize(np.arange(4), count).astype(dtype), one()]
    if name in specials.EXACT:
        shift = 1.0 if name == "zeta" else 0.0
        return [one() + dtype.type(shift) for _ in range(specials.ARITY.get(name, 2))]
    return [one() for _ in range(2 if name in ("pow", "atan2", "rem", "div") else 1)]


def speed(names: list[str], dtype: np.dtype) -> dict[str, tuple[float, float]]:
    """name -> (ours, jax) in ms per 5M elements."""
    count = COUNT if dtype.kind != "c" else COUNT // 5
    if names[0] in specials.EXACT:
        count = SPECIAL_COUNT
    pairs = ("pow", "atan2", "rem", "div")
    arity = {n: specials.ARITY.get(n, 2) if n in specials.EXACT else 2 if n in pairs else 1
             for n in names}
    ours = harness.Functions({n: (TABLE[n], [dtype] * arity[n]) for n in names},
                             size=count, device="local-task")
    result = {}
    for n in names:
        xs = operands(n, dtype, count)
        on_device, in_jax_ = ours.put(*xs), [jax.numpy.asarray(x) for x in xs]
        function = in_jax(n)
        mine = best(lambda: ours.on_device(n, *on_device))  # noqa: B023
        theirs = best(lambda: function(*in_jax_).block_until_ready())  # noqa: B023
        result[n] = (mine * COUNT / count, theirs * COUNT / count)
    return result


def worst(error: np.ndarray) -> str:
    value = float(np.max(error))
    return f"{value:.2f}" if value < 1e4 else "> 1e4"


def float_errors(name: str, dtype: np.dtype) -> tuple[str, str]:
    label = "f32" if dtype == harness.F32 else "f64"
    if name in floats.BINARY:
        xs = floats.pairs(name, dtype)
    else:
        xs = [harness.samples(dtype, *floats.RANGE.get(name, (-100, 100)), seed=1)]
    if name in ("erf", "erfc", "erf_inv"):
        xs = [x[::16] for x in xs]
        want = floats.exact_error_function(name, xs[0])
    else:
        want = floats.oracle(name, *xs)
    return tuple(worst(np.where(harness.flushed(got, want, *xs), 0, harness.ulps(got, want)))
                 for got in (floats.GROUPS[label](name, *xs), np.asarray(in_jax(name)(*xs))))


def special_errors(name: str, dtype: np.dtype) -> tuple[str, str]:
    xs = [x.astype(dtype) for x in specials.operands(name, 1)]
    want = specials.exact(name, *xs)
    ours = specials.GROUPS["f32" if dtype == harness.F32 else "f64"](name, *xs)
    return tuple(worst(np.where(harness.flushed(got, want, *xs), 0, harness.ulps(got, want)))
                 for got in (ours, np.asarray(in_jax(name)(*xs))))


def complex_errors(name: str, dtype: np.dtype) -> tuple[str, str]:
    z = complexes.numbers(dtype, 1)
    want = complexes.UNARY[name](z.astype(harness.CLONG))
    return tuple(worst(complexes.relative_error(got, want)) for got in
                 (complexes.MODULE[dtype.name](name, z), np.asarray(in_jax(name)(z))))


def rows(names: list[str], dtypes: list[np.dtype], errors: Callable[..., tuple[str, str]]
         ) -> list[str]:
    lines = []
    for dtype in dtypes:
        times = speed(names, dtype)
        for n in names:
            mine, theirs = times[n]
            try:
                ours, jaxs = errors(n, dtype)
            except KeyError:
                ours = jaxs = "exact" if n == "rem" else ""
            lines.append(f"| {n} | {dtype.name} | {mine:.2f} | {theirs:.2f} | {theirs / mine:.1f} "
                         f"| {ours} | {jaxs} |")
            print(lines[-1], flush=True)
    return lines


def tutorial() -> str:
    """f(x) = sum(3x + sin x + cos x^2 - cos 2x - 0.4 x^2 x^1.5) on 50M f32 in [0, 5)."""
    x = np.random.default_rng(0).uniform(0, 5, TUTORIAL).astype(np.float32)

    def ours(b, v):
        square = v * v
        return (v * 3.0 + TABLE["sin"](b, v) + TABLE["cos"](b, square) - TABLE["cos"](b, v * 2.0)
                - square * 0.4 * pow_const(b, v, 1.5))

    def in_jax_(v):
        return (3 * v + jax.numpy.sin(v) + jax.numpy.cos(v**2) - jax.numpy.cos(2 * v)
                - v**2 * 0.4 * v**1.5)

    module = harness.Functions({"f": (ours, [harness.F32])}, size=TUTORIAL, device="local-task")
    [array] = module.put(x)
    mine = best(lambda: module.on_device("f", array), 3)
    function, value = jax.jit(in_jax_), jax.numpy.asarray(x)
    theirs = best(lambda: function(value).block_until_ready(), 3)
    return (f"The tutorial's `3x + sin(x) + cos(x**2) - cos(2x) - x**2*0.4*x**1.5` on 50M f32, "
            f"elementwise without the sum: {mine:.0f} ms, jax {theirs:.0f} ms "
            f"({theirs / mine:.1f} times).")


def section(title: str) -> str:
    """One table, with its title."""
    head = ["| function | dtype | ms | jax ms | ratio | error | jax error |",
            "|---|---|---|---|---|---|---|"]
    reals = [harness.F32, harness.F64]
    if title == "Real":
        lines = rows([*floats.UNARY, *floats.BINARY, "rem", "erf", "erfc", "erf_inv"], reals,
                     float_errors)
    elif title == "Special":
        lines = rows(list(specials.EXACT), reals, special_errors)
    else:
        lines = rows(list(complexes.UNARY), [complexes.C64, complexes.C128], complex_errors)
    return "\n".join([f"## {title}", "", *head, *lines, ""])


def main() -> None:
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    page = ROOT / "docs" / "math_accuracy.md"
    if "--only" in sys.argv:  # the other sections stay as they are
        title = sys.argv[sys.argv.index("--only") + 1]
        parts = re.split(r"(?m)^(?=## |The tutorial)", page.read_text())
        made = section(title) + "\n"
        kept = [p for p in parts if not p.startswith(f"## {title}\n")]
        kept.insert(len(kept) - 1, made)
        text = "".join(kept)
    else:
        text = "\n".join([
            "# Accuracy and speed of the elementwise functions", "",
            __doc__.split("\n\n")[2].strip(),
            "Written by `python benchmarks/math_table.py --write`; jax "
            f"{jax.__version__}, the same machine, the same run.", "",
            section("Real"), section("Complex"), section("Special"), tutorial(), ""])
    if "--write" in sys.argv:
        page.write_text(text)


if __name__ == "__main__":
    main()
