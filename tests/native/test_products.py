"""The C kernel of matrix products: every dtype and level, sizes around its blocks, any strides."""
from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calque.lowering.kernels import gemm
from calque.lowering.target.targets import host_target, parse_target
from tests.native.kernels import FOLDER, call, compiler, object_that_needs_nothing

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = (np.dtype("f4"), np.dtype("f8"), BFLOAT16, np.dtype("f2"))
LEVELS = [level for level in gemm.LEVELS
          if set(parse_target(f"cpu:{level}").features) <= set(host_target().features)
          and host_target().arch == "x86_64"]
every = pytest.mark.parametrize("dtype", DTYPES, ids=str)
at_levels = pytest.mark.parametrize("level", LEVELS)


@dataclass(frozen=True)
class Product:
    """One call: sizes, which operands lie transposed, and cells; `apart`: rows are so many times
    further apart, and elements too where it is above 2; one batch of b where `shared`."""

    batch: int
    m: int
    n: int
    k: int
    turned: str = ""
    tall: int = 64
    broad: int = 64
    few: int = 0
    groups: int = 1
    apart: int = 1
    shared: bool = False


def operand(rng: Any, dtype: Any, batch: int, rows: int, columns: int, turned: bool, apart: int
            ) -> tuple[Any, list[int], Any]:
    """Memory, strides of batch, row and column, and the matrices."""
    inner = apart if apart > 2 else 1
    size = (columns, rows * apart, inner) if turned else (rows, columns * apart, inner)
    memory = rng.standard_normal((batch, *size)).astype(dtype)
    strides = [size[0] * size[1] * inner, size[1] * inner, inner]
    if turned:
        return memory, [strides[0], strides[2], strides[1]], np.swapaxes(
            memory[:, :, :rows, 0], 1, 2)
    return memory, strides, memory[:, :, :columns, 0]


def run(p: Product, dtype: Any, level: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """The result, the one wanted in f64, and the sum of magnitudes."""
    rng = np.random.default_rng(seed)
    sums = np.dtype("f8" if dtype == np.float64 else "f4")
    a, a_strides, x = operand(rng, dtype, p.batch, p.m, p.k, "x" in p.turned, p.apart)
    b, b_strides, y = operand(rng, dtype, 1 if p.shared else p.batch, p.k, p.n, "y" in p.turned,
                              p.apart)
    b_strides[0] *= not p.shared
    room = gemm.room_of(min(p.tall, p.m), min(p.broad, p.n), p.k, p.few, gemm.LEVELS[level],
                        sums.itemsize)
    c, _ = call("gemm", "gemm", dtype, [a, b],
                [((p.batch, p.m, p.n), sums), ((p.groups * room,), sums)],
                [p.batch, p.m, p.n, p.k, 1, *a_strides, *b_strides, p.tall, p.broad, p.few, room],
                p.groups, level)
    x, y = x.astype("f8"), y.astype("f8")
    return c, x @ y, np.abs(x) @ np.abs(y)


def close(p: Product, dtype: Any, level: str, seed: int = 0) -> None:
    got, want, size = run(p, dtype, level, seed)
    bound = float(np.finfo(got.dtype).eps) * (p.k + 4) ** 0.5
    assert np.all(np.abs(got - want) <= bound * size), (p, dtype, level)


@every
@at_levels
def test_drawn_sizes(dtype: Any, level: str) -> None:
    rng = np.random.default_rng(7)
    for seed in range(80):
        batch, m, n, k = (int(rng.integers(1, most + 1)) for most in (3, 40, 40, 40))
        close(Product(batch, m, n, k, str(rng.choice(["", "x", "y", "xy"])),
                      int(rng.integers(1, 41)), int(rng.integers(1, 41)),
                      int(rng.choice([0, 64])), int(rng.integers(1, 5)),
                      int(rng.choice([1, 1, 2, 3])), bool(rng.integers(2))), dtype, level, seed)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@at_levels
def test_as_they_lie(dtype: Any, level: str) -> None:
    """Nothing packed: a by rows and by columns, rows of either further apart, the last panel of
    a cell beside the one before; panels packed where they are narrow, or b is turned round."""
    rng = np.random.default_rng(8)
    columns = 2 * gemm.LEVELS[level] // dtype.itemsize
    for seed in range(90):
        batch, m, k = (int(rng.integers(1, most + 1)) for most in (3, 50, 40))
        n, k = int(rng.integers(columns, 4 * columns)), k + 256 * (seed % 5 == 0)
        broad, across = columns * int(rng.integers(1, 5)), seed % 7 == 0
        if seed % 3 == 0:
            n = int(rng.integers(1, columns))
        while n > columns and 0 < n % broad < columns:
            broad += columns
        turned, apart, groups = seed % 2, int(rng.integers(1, 3)), int(rng.integers(1, 5))
        a, a_strides, x = operand(rng, dtype, batch, m, k, bool(turned), apart)
        b, b_strides, y = operand(rng, dtype, batch, k, n, across, apart)
        if seed % 3 == 0:
            x[:, -1, 0] = np.inf  # stays in its row
        c, = call("gemm", "direct", dtype, [a, b], [((batch, m, n), dtype)],
                  [batch, m, n, k, 1, *a_strides, *b_strides, int(rng.integers(1, 41)), broad],
                  groups, level)
        with np.errstate(invalid="ignore"):
            want, size = x.astype("f8") @ y.astype("f8"), np.abs(x).astype("f8") @ np.abs(y)
        finite = np.isfinite(want)
        assert np.array_equal(finite, np.isfinite(c)), (seed, level)
        bound = float(np.finfo(dtype).eps) * (k + 4) ** 0.5
        assert np.all(np.abs(c[finite] - want[finite]) <= bound * size[finite]), (seed, level)


@every
@at_levels
def test_sums_in_parts(dtype: Any, level: str) -> None:
    """Parts of one length and of two, added up behind; of a batch, too."""
    rng = np.random.default_rng(9)
    sums = np.dtype("f8" if dtype == np.float64 else "f4")
    for seed in range(30):
        batch, m, n, k = (int(rng.integers(1, most + 1)) for most in (3, 40, 70, 700))
        split, groups = int(rng.integers(1, min(k, 9) + 1)), int(rng.integers(1, 5))
        a, a_strides, x = operand(rng, dtype, batch, m, k, bool(seed % 2), 1)
        b, b_strides, y = operand(rng, dtype, batch, k, n, bool(seed % 3 == 0), 1)
        room = gemm.room_of(m, n, -(-k // split), 0, gemm.LEVELS[level], sums.itemsize)
        c, _ = call("gemm", "gemm", dtype, [a, b], [
            ((batch, split, m, n), sums), ((groups * room,), sums)],
            [batch, m, n, k, split, *a_strides, *b_strides, m, n, 0, room], groups, level)
        made, = call("gemm", "add", sums, [c], [((batch, m, n), sums)], [batch, m * n, split],
                     groups, level)
        x, y = x.astype("f8"), y.astype("f8")
        bound = float(np.finfo(sums).eps) * (k + 4) ** 0.5
        assert np.all(np.abs(made - x @ y) <= bound * (np.abs(x) @ np.abs(y))), (seed, level)


def test_which_are_read_as_they_lie() -> None:
    """Cells are no narrower than a panel; nothing of what is large, or in few sets of a cache."""
    for m, n, k, row, is_direct in ((64, 64, 64, 64, True), (200, 65, 100, 65, True),
                                    (512, 512, 512, 512, False), (512, 512, 64, 512, False),
                                    (32, 512, 784, 512, True), (4, 512, 784, 512, False),
                                    (64, 15, 64, 15, False), (64, 1024, 1024, 1024, False),
                                    (300, 500, 700, 500, True), (300, 500, 1024, 500, False),
                                    (1000, 1000, 1000, 1000, True), (100, 5000, 5000, 5000, False)):
        plan = gemm.direct(gemm.cells(1, m, n, k, True, 32, 4), n, k, k, row, 32, 4)
        assert (plan is not None) == is_direct, (m, n, k)
        assert plan is None or not 0 < n % plan.broad < 16
    narrow = gemm.cells(1, 300, 500, 700, True, 16, 4)  # (vectors of 16 bytes)
    assert gemm.direct(narrow, 500, 700, 700, 500, 16, 4) is None


@every
@at_levels
def test_around_blocks(dtype: Any, level: str) -> None:
    """Sizes at and beside those of tiles and blocks, in cells as the plan has them."""
    size = 8 if dtype == np.float64 else 4
    columns = 2 * gemm.LEVELS[level] // size
    for i, (m, n, k) in enumerate((
            (1, columns, 256), (2, columns + 1, 257), (64, 2 * columns - 1, 513),
            (65, columns, 255), (167, columns - 1, 64), (169, 3 * columns, 256),
            (337, columns + 3, 300), (14, 300, 511), (13, 257, 4), (84, 511, 5), (6, 600, 1024))):
        for turned in ("", "x", "y", "xy")[i % 2::2]:
            plan = gemm.cells(1, m, n, k, "y" not in turned, gemm.LEVELS[level], size)
            assert plan.room == gemm.room_of(plan.tall, plan.broad, k, plan.few,
                                             gemm.LEVELS[level], size)
            close(Product(1, m, n, k, turned, plan.tall, plan.broad, plan.few, plan.groups), dtype,
                  level, i)


@at_levels
def test_what_is_not_finite_stays_in_its_rows_and_columns(level: str) -> None:
    """What fills panels up reaches no result."""
    for few in (0, 64):
        for turned in (False, True):
            x, y = np.ones((7, 5), "f4"), np.ones((5, 37), "f4")
            x[2, 4], y[4, 36], y[1, 3] = np.nan, np.inf, -np.inf
            room = gemm.room_of(7, 37, 5, few, gemm.LEVELS[level], 4)
            b = y.T.copy() if turned else y
            c, _ = call("gemm", "gemm", "f4", [x, b], [((7, 37), "f4"), ((room,), "f4")],
                        [1, 7, 37, 5, 1, 0, 5, 1, 0, *((1, 5) if turned else (37, 1)), 7, 37, few,
                         room], level=level)
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(c, x @ y)


@every
@at_levels
def test_windows(dtype: Any, level: str) -> None:
    """Operands in nests of axes, with steps of any size or none, as rows and as columns."""
    rng = np.random.default_rng(3)
    sums = np.dtype("f8" if dtype == np.float64 else "f4")
    for seed in range(40):
        deep, across = (rng.integers(1, [3, 4, 4, 12]) for _ in range(2))
        apart = [rng.integers(0, 9, 4), rng.integers(0, 9, 4)]
        for steps in apart[:1 + seed % 2]:
            steps[3] = seed % 3 > 0  # side by side, or always the same
        o, second, as_it_lies = int(rng.integers(1, 40)), seed % 4 > 1, seed % 3 == 1
        as_it_lies &= sums == dtype
        x = rng.standard_normal(1000).astype(dtype)
        places = [np.ravel(sum(i * a for i, a in zip(np.indices(n), steps)))
                  for n, steps in zip((deep, across), apart)]
        k, count = len(places[0]), len(places[1])
        y = rng.standard_normal((k, o)).astype(dtype)
        lanes = gemm.LEVELS[level] // sums.itemsize
        images = int(across[0]) if second else 1
        shape = (images, o, count // images) if second else (count, o)
        shift, more = (rng.standard_normal(n).astype(sums) for n in (o, shape))
        how, epilogue = seed % 8, "_epilogue" if seed % 8 & 3 else ""
        if second:
            broad = min(2 * lanes * (1 + seed % 2), -(-count // (2 * lanes)) * 2 * lanes)
            room = 256 * 2 * lanes + 20 * (broad + 64 // sums.itemsize) + 20 * 256
            counts, entry = [images, o, shape[2], k], "convolve_features"
        else:
            broad = 32
            room = gemm.room_of(min(20, count), min(32, o), k, 0, gemm.LEVELS[level], sums.itemsize)
            counts, entry = [count, o, k], "convolve"
        turned = second and (as_it_lies or seed % 5 == 0)
        c, _ = call("gemm", entry + epilogue, dtype,
                    [x, y.T.copy() if turned else y, *([shift, more] if epilogue else [])],
                    [(shape, sums), ((2 * room,), sums)],
                    [*counts, *deep, *apart[0], *across, *apart[1], *((1, k) if turned else (o, 1)),
                     how + 8 * as_it_lies, 20, broad, room], 2, level)
        seen = x.astype("f8")[np.add.outer(places[1], places[0])]
        want, size = seen @ y.astype("f8"), np.abs(seen) @ np.abs(y.astype("f8"))
        if second:
            want, size = (v.reshape(images, -1, o).swapaxes(1, 2) for v in (want, size))
        want = want + (how & 1) * (shift[:, None] if second else shift) + (how & 2) // 2 * more
        if how & 4:
            want = np.maximum(want, 0)
        bound = float(np.finfo(sums).eps) * (k + 4) ** 0.5
        assert np.all(np.abs(c - want) <= bound * (size + 4)), (seed, dtype, level)


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("f2")], ids=str)
@at_levels
def test_every_half(dtype: Any, level: str) -> None:
    """All bit patterns, by each way in which operands are read: exactly, NaN as NaN."""
    every, one = np.arange(1 << 16, dtype=np.uint16).view(dtype), np.ones(1, dtype)
    n = every.size
    with np.errstate(invalid="ignore"):  # signalling NaNs are compared
        want = every.astype("f4")
        for few in (0, 64):
            for m, columns, x, y in ((1, n, one, every), (n, 1, every, one)):
                room = gemm.room_of(min(m, 64), min(columns, 64), 1, few, gemm.LEVELS[level], 4)
                for strides in ((1, 1, columns, 1), (1, m, 1, 1)):  # of rows and columns
                    c, _ = call("gemm", "gemm", dtype, [x, y], [((n,), "f4"), ((room,), "f4")],
                                [1, m, columns, 1, 1, 0, *strides[:2], 0, *strides[2:], 64, 64, few,
                                 room], level=level)
                    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("level", (FOLDER / "LEVELS").read_text("utf-8").splitlines())
def test_the_object_needs_nothing(level: str, tmp_path: Path) -> None:
    made = object_that_needs_nothing("gemm", level, tmp_path)
    if shutil.which("objdump") and "x86-64" in level:
        text = subprocess.run(["objdump", "-d", str(made)], check=True, capture_output=True,
                              text=True).stdout
        frames = [int(n, 16) for n in re.findall(r"sub +\$0x([0-9a-f]{1,8}),%rsp", text)]
        assert frames and max(frames) < 4096


def drive(driver: str, tmp_path: Path) -> None:
    """Runs a driver of gemm.c's entries under sanitizers."""
    out = tmp_path / "driver"
    made = subprocess.run(
        [compiler(), "-std=gnu11", "-O1", "-g1", "-march=x86-64-v3" if "x86-64-v3" in LEVELS
         else "-march=native", "-Wall", "-Wno-psabi", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-o", str(out), str(Path(__file__).with_name(driver)),
         str(FOLDER / "gemm.c")],
        capture_output=True, text=True, check=False)
    if made.returncode and "san" in made.stderr:
        pytest.skip("no sanitizers on this machine")
    assert not made.returncode, made.stderr
    done = subprocess.run([str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr[:3000]


@pytest.mark.slow
def test_under_sanitizers(tmp_path: Path) -> None:
    """Exact buffers: nothing outside them, no undefined arithmetic (cases: gemm_driver.c)."""
    drive("gemm_driver.c", tmp_path)
