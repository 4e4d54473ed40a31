"""Runs one of JAX's test files in processes of its own, and goes on behind a crash or a hang.

`run` starts pytest with plugin.py, which writes a row for each test; where the process dies or
stands still, the test at work gets a row of ours and the rest runs in the next process.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).parent
PROCESSES = 12  # for one file: so many crashes are borne
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How files are run: their folder, where rows are kept, limits in seconds, samples."""
    tests: pathlib.Path
    out: pathlib.Path
    seconds: float = 600
    test_seconds: float = 60
    every: int = 1
    cases: int = 3
    devices: int | None = None
    chosen: str | None = None  # as pytest's -k

    def rows(self, package: str, file: str) -> pathlib.Path:
        name = file.removesuffix(".py").replace("/", ".")
        return self.out / package / f"{name}.jsonl"


def read(path: pathlib.Path) -> list[Row]:
    """The rows of a file; a last line that is cut off is none."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _append(path: pathlib.Path, **row: Any) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _environment(package: str, rows: pathlib.Path, options: Options,
                 only: pathlib.Path | None) -> dict[str, str]:
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {
        "JAX_SUITE_PACKAGE": package, "JAX_SUITE_ROWS": str(rows),
        "JAX_SUITE_EVERY": str(options.every), "JAX_NUM_GENERATED_CASES": str(options.cases),
        "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu", "JAX_SKIP_SLOW_TESTS": "1",
        "CALQUE_CACHE_DIR": str(options.out / "cache"), "CALQUE_PROGRESS": "0",
        "PYTHONHASHSEED": "0"}
    if options.devices:
        env["JAX_NUM_CPU_DEVICES"] = str(options.devices)
    if only:
        env["JAX_SUITE_ONLY"] = str(only)
    return env


def _command(file: str, options: Options) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "plugin", "-p",
               "no:cacheprovider", "--tb=no", f"--timeout={options.test_seconds}",
               "--timeout-method=signal", "-o", "addopts=", "-c", os.devnull, "--rootdir",
               str(options.tests), "--import-mode=importlib", file]
    return [*command, "-k", options.chosen] if options.chosen else command


def _watch(process: subprocess.Popen[bytes], now: pathlib.Path, options: Options,
           end: float) -> str | None:
    """Waits; "hang" where a test stood still and was ended, "limit" where the time was up."""
    while process.poll() is None:
        time.sleep(0.3)
        words = now.read_text().split("\n") if now.exists() else []
        late = len(words) == 2 and time.time() - float(words[1]) > options.test_seconds + 25
        if late or time.time() > end:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "hang" if late else "limit"
    return None


def run(package: str, file: str, options: Options, only: pathlib.Path | None = None) -> list[Row]:
    """The rows of a file's tests with a package; `only`: a file of the names of those to run."""
    rows = options.rows(package, file)
    rows.parent.mkdir(parents=True, exist_ok=True)
    now, done = rows.with_suffix(".now"), rows.with_suffix(".done")
    printed = rows.with_suffix(".stdout")
    for path in (rows, now, done, printed):
        path.unlink(missing_ok=True)
    env = _environment(package, rows, options, only)
    end = time.time() + options.seconds
    for _ in range(PROCESSES):
        with printed.open("ab") as out:
            process = subprocess.Popen(_command(file, options), cwd=options.tests, env=env,
                                       stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            reason = _watch(process, now, options, end)
        if reason == "limit":
            _append(rows, meta="limit")
            break
        if reason is None and process.returncode in range(6):
            if process.returncode in (2, 3, 4):  # pytest's own: interrupted, internal, usage
                _append(rows, meta="pytest", code=process.returncode)
            break
        names = [row["id"] for row in read(rows) if "id" in row]
        at_work = now.read_text().split("\n")[0] if now.exists() else ""
        if not at_work or at_work in names and reason is None:
            _append(rows, meta="pytest", code=process.returncode)
            break
        _append(rows, id=at_work, when="call", outcome="failed", error=reason or "crash",
                message=f"exit status {process.returncode}", seconds=0, private=None)
        done.write_text("\n".join([*names, at_work]))
        env["JAX_SUITE_DONE"] = str(done)
    now.unlink(missing_ok=True)
    return read(rows)
