"""How two runs of a program are compared, and what is typed of one: texts of our own."""
from __future__ import annotations

import importlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

OURS = ("run", "typist", "cells", "compare", "type_cells")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its modules, which stay out of other tests' way."""
    path = list(sys.path)
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parent))
    yield importlib.import_module
    sys.path[:] = path
    for name in OURS:
        sys.modules.pop(name, None)


def test_digests(programs: Any) -> None:
    typist, run = programs("typist"), programs("run")
    x = np.linspace(1, 2, 12).reshape(3, 4)
    one, other = (typist.digest(v, list) for v in ([x, 1.5], [x[::-1].copy(), 1.5]))
    assert run.near(one, typist.digest([x * (1 + 1e-6), 1.5], list), False)
    assert not run.near(one, other, False) and run.near(one, other, True)
    assert not run.near(one, typist.digest([x * 2, 1.5], list), True)
    assert not run.near(one, typist.digest([x.astype(np.float32), 1.5], list), True)
    assert typist.digest("text", list) is None


def test_a_main_hands_out_its_names(programs: Any) -> None:
    typist, kept = programs("typist"), {}
    names: dict[str, Any] = {typist.KEEP: kept.update}
    exec(typist.opened("def main(a=1):\n    b = a + 1\n    return b\n"), names)
    assert names["main"]() == 2 and kept == {"a": 1, "b": 2}


def test_kinds_of_cells(programs: Any, monkeypatch: pytest.MonkeyPatch,
                        tmp_path: pathlib.Path) -> None:
    run = programs("run")
    monkeypatch.setattr(run, "OUT", tmp_path)
    one, two = [[[], "float32", 1.0, 1.0, 1.0, 0]], [[[], "float32", 2.0, 2.0, 2.0, 0]]
    row = {"printed": "took 3 s\nx 1.5", "seconds": 1, "values": {"x": one}}
    bad = {"error": "TypeError", "message": "", "printed": "", "seconds": 1, "values": {}}
    pairs = [(row, row), (row | {"printed": "took 4 s\nx 1.5"}, row),
             (row | {"printed": "x 1.6"}, row), (row | {"values": {"x": two}}, row), (bad, row),
             (row, bad)]
    for k, name in enumerate(("first", "jax")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.b.jsonl").write_text("".join(
            json.dumps(p[k] | {"cell": c}) + "\n" for c, p in enumerate(pairs)))
    found = [kind for _, kind, _ in run.judged({"name": "a/b"})]
    assert found == ["same", "same", "value", "value", "error", "jax"]
