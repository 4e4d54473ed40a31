"""A pytest plugin: chooses the package, samples the tests and writes a line of JSON for each.

Read from the environment: JAX_SUITE_PACKAGE (calque or jax), JAX_SUITE_ROWS (the file of rows; the
test at work stands in FILE.now), JAX_SUITE_EVERY (every n-th test by its name's hash), and files of
names: JAX_SUITE_DONE (left out) and JAX_SUITE_ONLY (no others).  one_file.py sets them and reads
the rows.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

ROWS = pathlib.Path(os.environ["JAX_SUITE_ROWS"])
NOW = ROWS.with_suffix(".now")
_raised: dict[str, BaseException] = {}

from stand_in import install  # noqa: E402

if os.environ["JAX_SUITE_PACKAGE"] == "calque":
    install.install()
else:
    sys.meta_path.append(install.Checkout)
import jax  # noqa: E402  (before any test file, whichever package it is)


def emit(**row: Any) -> None:
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _names(variable: str) -> set[str] | None:
    path = os.environ.get(variable)
    return set(pathlib.Path(path).read_text().split("\n")) if path else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The chosen tests in the order of a hash: what a time limit leaves is a fair sample."""
    every = int(os.environ.get("JAX_SUITE_EVERY", "1"))
    done, only = _names("JAX_SUITE_DONE") or set(), _names("JAX_SUITE_ONLY")
    kept = [i for i in items if i.nodeid not in done and (
        i.nodeid in only if only is not None else zlib.adler32(i.nodeid.encode()) % every == 0)]
    emit(meta="collected", total=len(items), kept=len(kept))
    items[:] = sorted(kept, key=lambda i: zlib.crc32(i.nodeid.encode()))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        emit(meta="not collected", text=str(report.longrepr)[-3000:])


def pytest_runtest_logstart(nodeid: str) -> None:
    NOW.write_text(f"{nodeid}\n{time.time()}")


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    if call.excinfo is not None:
        _raised[item.nodeid + call.when] = call.excinfo.value


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    row: dict[str, Any] = {"id": report.nodeid, "when": report.when, "outcome": report.outcome,
                           "seconds": round(report.duration, 2)}
    error = _raised.pop(report.nodeid + report.when, None)
    if error is not None:
        row |= _described(error)
    elif report.outcome == "skipped":
        row["message"] = str(report.longrepr)[-300:]
    emit(**row)
    if row.get("private"):
        _end_trace()


def _end_trace() -> None:
    """A test that a stand-in ended has not stopped the trace that it started."""
    with contextlib.suppress(RuntimeError), tempfile.TemporaryDirectory() as folder:
        here = os.getcwd()
        os.chdir(folder)
        try:
            jax.profiler.stop_trace()
        finally:
            os.chdir(here)


def _described(error: BaseException) -> dict[str, Any]:
    causes = list(_chain(error))
    frames = traceback.extract_tb(error.__traceback__)
    tests = [f for f in frames if f.filename.endswith("_test.py")]
    return {
        "error": type(error).__name__, "message": str(error)[:1500],
        "private": next((str(e) for e in causes if type(e).__name__ == "PrivateUse"), None),
        "causes": [f"{type(e).__name__}: {str(e)[:300]}" for e in causes[1:4]],
        "where": f"{pathlib.Path(tests[-1].filename).name}:{tests[-1].lineno}: {tests[-1].line}"
                 if tests else None,
        "frames": [f"{f.filename.split('site-packages/')[-1]}:{f.lineno} {f.name}: {f.line}"
                   for f in frames[-8:]]}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and not any(error is e for e in seen):
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__
