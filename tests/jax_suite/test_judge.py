"""What the runner of JAX's tests makes of rows: kinds of failures, what counts, jax's share."""
from __future__ import annotations

import importlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
OURS = ("judge", "one_file", "table", "run")


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its modules, which lie beside this file and stay out of other tests' way."""
    before = {name: sys.modules.pop(name) for name in OURS if name in sys.modules}
    monkeypatch.syspath_prepend(str(HERE))
    yield importlib.import_module
    for name in OURS:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def failed(name: str = "a_test.py::T::test", **row: Any) -> dict[str, Any]:
    return {"id": name, "outcome": "failed", "error": "AssertionError", "message": "", **row}


def test_kinds_of_failures(suite: Any) -> None:
    kind = suite("judge").kind
    for want, row in {
            "value": failed(message="\nNot equal to tolerance rtol=1e-6"),
            "noraise": failed(message="ValueError not raised"),
            "message": failed(message='"a phrase" does not match "another"'),
            "assert": failed(message="1 != 2"),
            "error": failed(error="TypeError", message="no such argument"),
            "crash": failed(error="crash"), "hang": failed(error="Failed", message="Timeout >60s"),
            "missing": failed(error="PrivateUse", private="MISSING jax.sharding.AbstractDevice"),
            "private": failed(error="PrivateUse", private="jax._src.core.x")}.items():
        assert kind(row) == want, row
    looks = failed(message="1 != 2", where="a_test.py:3: self.assertLen(jaxpr.eqns, 1)")
    assert kind(looks) == "private"
    assert kind(failed("a_test.py::T::test_fun_name", message="1 != 2")) == "private"


def test_what_jax_does_not_pass_does_not_count(suite: Any, tmp_path: pathlib.Path) -> None:
    rows: dict[str, list[Any]] = {
        "calque": [{"meta": "collected", "total": 9, "kept": 9},
                   {"id": "a", "outcome": "passed"}, {"id": "b", "outcome": "skipped"},
                   failed("c", message="1 != 2"), failed("d", message="1 != 2"),
                   failed("e", message="1 != 2"), {"meta": "limit"}],
        "jax": [{"id": "c", "outcome": "passed"}, {"id": "d", "outcome": "failed"}]}
    for package, lines in rows.items():
        (tmp_path / package).mkdir()
        text = "\n".join(map(json.dumps, lines)) + '\n{"id": "cut o'
        (tmp_path / package / "x_test.jsonl").write_text(text)
    table = suite("table")
    assert table.counts(tmp_path, "x_test") == {
        "passed": 1, "skipped": 1, "assert": 1, "not compared": 2}
    assert table.notes(tmp_path, "x_test") == ("9", " (sample)")
    assert any(line.startswith("| x_test (sample) | 9 | 5 | 1 |") for line in table.lines(tmp_path))
    assert set(suite("run").asked_of_jax(rows["calque"])) >= {"c", "d", "e"}


def test_rows_of_other_files_stay(suite: Any, tmp_path: pathlib.Path) -> None:
    table = suite("table")
    (tmp_path / "calque").mkdir()
    for name in ("a_test", "c_test"):
        (tmp_path / "calque" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, [
            {"meta": "collected", "total": 2, "kept": 2}, {"id": "x", "outcome": "passed"},
            failed("y", message="1 != 2")])))
    first = "\n".join(table.lines(tmp_path))
    (tmp_path / "calque" / "a_test.jsonl").write_text("\n".join(map(json.dumps, [
        {"meta": "collected", "total": 3, "kept": 3},
        *[{"id": i, "outcome": "passed"} for i in "xyz"]])))
    (tmp_path / "calque" / "c_test.jsonl").unlink()
    again = list(table.lines(tmp_path, first))
    assert again[2].startswith("| a_test | 3 | 3 | 3 |") and again[3] in first.splitlines()
    assert again[4].startswith("| all |  | 5 | 4 |") and again[-1].startswith("1 more failed")
