"""The survey: values and derivatives over decades against mpmath, beside jax's.

An error is measured against what one rounding of the arguments does: |found - exact| over
eps max(|f|, sum |x df/dx|), in eps; of a derivative likewise.  Start reading at `survey`.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import mpmath as mp
import numpy as np
from mpmath.libmp import NoConvergence

DIGITS = 150  # of 1e30 and 1e-30 in one sum, with 50 left
STEP = mp.mpf(10) ** -40  # of difference quotients, relative to the argument
TURN = mp.mpf(10) ** -34  # by how much arguments turn to see what a derivative depends on
NOISE = mp.mpf(10) ** -85  # of the value: less is what is left of DIGITS after STEP
PATIENCE = 0.5  # seconds that one point may take
BUDGET = 10.0  # seconds for a function


HERE = pathlib.Path(__file__).parent


class Late(Exception):
    """mpmath takes too long for a point."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of our own: others work on the machine, too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _slope(f: Any, x: list[Any], i: int) -> Any:
    """df/dx_i times x_i."""
    up, down = list(x), list(x)
    up[i], down[i] = x[i] * (1 + STEP), x[i] * (1 - STEP)
    return (f(*up) - f(*down)) / (2 * STEP)


def exact_row(f: Any, row: Any, by: Any) -> list[tuple[float, float]] | None:
    """(value, condition) of the function and of each derivative; None where there is none."""
    x = [mp.mpf(float(v)) for v in row]
    try:
        value = f(*x)
        if value is None or not mp.isfinite(value):
            return None
        slopes = [_slope(f, x, i) if x[i] else mp.mpf(0) for i in range(len(x))]
        made = [(_float(value), _float(sum(abs(s) for s in slopes)))]
        for i in by:
            if not x[i] or abs(slopes[i]) < abs(value) * NOISE:
                made.append((float("nan"), 0.0))
                continue
            condition = mp.mpf(0)
            for j in range(len(x)):
                turned = list(x)
                turned[j] = x[j] * (1 + TURN)
                condition += abs(_slope(f, turned, i) / turned[i] - slopes[i] / x[i]) / TURN
            made.append((_float(slopes[i] / x[i]), _float(condition)))
        return made
    except (TypeError, ValueError, ArithmeticError, NotImplementedError, NoConvergence):
        return None


def _float(x: Any) -> float:
    try:
        return float(mp.re(x))
    except OverflowError:
        return float("inf")


def exact(function: Any, points: np.ndarray) -> np.ndarray:
    """(points, 1 + slopes, 2): values and conditions, NaN where mpmath has none in time."""
    made = np.full((len(points), 1 + len(function.by), 2), np.nan)
    start = time.process_time()
    order = np.random.default_rng(1).permutation(len(points))
    with mp.workdps(DIGITS):
        for k in order:
            if time.process_time() - start > BUDGET:
                break
            try:
                with limited(PATIENCE):
                    row = exact_row(function.exact, points[k], function.by)
            except Late:
                continue
            if row is not None:
                made[k] = row
    return made


def errors(found: np.ndarray, true: np.ndarray, dtype: str) -> np.ndarray:
    """In eps, of one column of values; NaN where nothing is known."""
    info = np.finfo(dtype)
    eps, tiny, most = float(info.eps), float(info.tiny), float(info.max)
    value, condition = true[:, 0], np.nan_to_num(true[:, 1], nan=0.0, posinf=np.inf)
    got = found.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = eps * np.maximum(np.abs(value), condition) + 4 * tiny
        made = np.abs(got - value) / scale
        made = np.where(np.isfinite(got), made, np.inf)
        # what the precision does not hold, and what one rounding brings there
        beyond = np.abs(value) + condition * eps * 4 > most * 0.99
        right = np.where(np.abs(value) > most, (np.abs(got) > most / 4) & (got * value > 0), True)
        made = np.where(beyond, np.where(right, 0.0, np.inf), made)
    return np.where(np.isnan(value), np.nan, made)


# ---- what the libraries give
HANGS = 40  # seconds of one function until its process is ended; where it waits, six times


def _busy(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ready(worker: Any) -> bool:
    """Whether the worker says something before it has computed for too long."""
    begun, start = _busy(worker.pid), time.monotonic()
    while not select.select([worker.stdout], [], [], 1)[0]:
        if _busy(worker.pid) - begun > HANGS or time.monotonic() - start > 6 * HANGS:
            return False
    return True


def gather(python: str, library: str, points: pathlib.Path, folder: pathlib.Path, dtype: str,
           count: int) -> dict[int, list[np.ndarray]]:
    """Values and derivatives of every function, none where the process crashed or hung."""
    folder.mkdir()
    first = 0
    while first < count:
        with subprocess.Popen([python, HERE / "special_values.py", library, points, folder, dtype,
                               str(first)], stdout=subprocess.PIPE, text=True) as worker:
            at = first
            while _ready(worker):
                line = worker.stdout.readline()  # type: ignore[union-attr]
                if not line:
                    break
                at = int(line)
            worker.kill()
        first = count if (folder / f"{count - 1}.npz").exists() else at + 1
    return {i: [np.load(f)[k] for k in np.load(f).files]
            for i in range(count) if (f := folder / f"{i}.npz").exists()}


# ---- the table
COLUMNS = [(library, d, k) for k in (0, 1) for library in ("calque", "jax")
           for d in ("float32", "float64")]
HEAD = ("| function | points | value, float32 | float64 | JAX, float32 | float64 | slopes, float32 "
        "| float64 | JAX, float32 | float64 | worst float32 at |\n" + "|---" * 11 + "|")
GROSS = 1e3  # eps: from here on the page says where


def worst(function: Any, points: np.ndarray, true: np.ndarray, found: list[np.ndarray],
          dtype: str, slopes: bool) -> tuple[float, str]:
    """The largest error of the value or of any slope, and where; NaN where there is nothing."""
    most, where = float("nan"), ""
    for k in range(1 if slopes else 0, true.shape[1] if slopes else 1):
        if k >= len(found):
            continue
        made = errors(found[k], true[:, k], dtype)
        if np.isnan(made).all():
            continue
        at = int(np.nanargmax(made))
        if not made[at] <= most:
            most, where = float(made[at]), ", ".join(f"{v:.6g}" for v in points[at])
            where += f": {function.by[k - 1]}" if slopes and len(function.by) > 1 else ""
    return most, where


def cell(error: float) -> str:
    if np.isnan(error):
        return ""
    return "no number" if np.isinf(error) else f"{error:.1f}" if error < 100 else f"{error:.0e}"


def measured(functions: Any, pythons: dict[str, str]) -> dict[str, list[str]]:
    """Rows by name: cells of COLUMNS, then where; those of a library that is not here are None."""
    points = [f.points() for f in functions]
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        given = home / "points.npz"
        rows = json.dumps([(f.name, f.by) for f in functions])
        np.savez(given, rows=rows, **{f"p{i}": p for i, p in enumerate(points)})
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            jobs = {(n, d): pool.submit(gather, python, n, given, home / f"{n}-{d}", d,
                                        len(functions))
                    for n, python in pythons.items() for d in ("float32", "float64")}
            true = [exact(f, p) for f, p in zip(functions, points)]
            found = {key: job.result() for key, job in jobs.items()}
    made: dict[str, list[Any]] = {}
    for i, f in enumerate(functions):
        every = {c: worst(f, points[i], true[i], found[c[:2]].get(i, []), c[1], bool(c[2]))
                 for c in COLUMNS if c[:2] in found}
        where = [every["calque", "float32", k] for k in (0, 1)]
        places = [("slope at " if k else "") + f"({w})" for k, (e, w) in enumerate(where)
                  if e >= GROSS]
        looked = int(np.isfinite(true[i][:, 0, 0]).sum())
        made[f.name] = [str(looked), *(cell(every[c][0]) if c in every else None
                                       for c in COLUMNS), "; ".join(places)]
    return made


def survey(functions: Any, names: list[str], pythons: dict[str, str], before: str) -> str:
    """The table of all names; rows and JAX's cells that are not measured stay those of `before`."""
    old = {r.split("|")[1].strip(" `"): [c.strip() for c in r.split("|")[2:-1]]
           for r in before.splitlines() if r.startswith("| `")}
    lines, made = [HEAD], measured(functions, pythons)
    for name in names:
        kept = old.get(name, [""] * (len(COLUMNS) + 2))
        cells = made.get(name, kept)
        lines.append(f"| `{name}` | " + " | ".join(
            k if c is None else c for c, k in zip(cells, kept)) + " |")
    return "\n".join(lines)
