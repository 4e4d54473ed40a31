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

OURS = ("run", "typist", "cells", "compare", "type_cells", "warm")


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


def test_a_checkout_may_have_its_owner(programs: Any, tmp_path: pathlib.Path) -> None:
    run, program = programs("run"), {"repository": "a/b"}
    assert run.checkout(program, tmp_path) == tmp_path / "b"
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert run.checkout(program, tmp_path) == tmp_path / "a" / "b"


def test_a_cell_that_is_no_python_is_left_to_its_row(programs: Any) -> None:
    assert programs("typist").opened("def main(:") == "def main(:"


def test_steps_are_compared_where_both_called_them(programs: Any, monkeypatch: pytest.MonkeyPatch,
                                                   tmp_path: pathlib.Path) -> None:
    run = programs("run")
    monkeypatch.setattr(run, "OUT", tmp_path)
    for name, calls in (("again", [["f", 10, 1.0], ["f", 10, 2.0], ["g", 10, 9.0], ["h", 1, 9.0]]),
                        ("jax", [["f", 20, 1.0], ["g", 20, 1.0], ["h", 1, 1.0]])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.b.calls").write_text(json.dumps(calls))
    assert run.steps_of({"name": "a/b"}) == 1.5
    assert run.steps_of({"name": "a/c"}) is None


def test_rows_of_the_page_stay(programs: Any, monkeypatch: pytest.MonkeyPatch,
                               tmp_path: pathlib.Path) -> None:
    run = programs("run")
    page = tmp_path / "page.md"
    page.write_text("| what it is | whose |\n|---|---|\n| a | o/r: f.py | 3 | as jax | values "
                    "| 2.0 | 0.50 | |\n| **1 of 1 as jax** | | | |\n")
    monkeypatch.setattr(run, "PAGE", page)
    monkeypatch.setattr(run, "OUT", tmp_path)
    found = run.table([{"repository": "o/r", "file": "f.py", "name": "o/r/f.py"}], tmp_path)
    assert "| a | o/r: f.py | 3 | as jax | values | 2.0 | 0.50 |  |  |" in found
    assert "1 of 1 as jax" in found and "ratios is 0.50." in found


def test_watched_functions(programs: Any) -> None:
    import types

    import calque
    warm = programs("warm")
    jax = types.SimpleNamespace(jit=calque.jit, core=calque.core, tree=calque.tree,
                                grad=calque.grad, block_until_ready=calque.block_until_ready)
    warm.watch(jax)

    class Model:
        @jax.jit
        def step(self: Any, x: Any) -> Any:
            return x * 2

    calque.tree_util.register_static(Model)
    f = jax.jit(lambda x: x ** 2)
    twice = jax.jit(lambda x, n: n * x, static_argnums=1)
    assert f(3.0) == 9 and jax.grad(f)(3.0) == 6 and twice(2.0, 3) == 6
    assert [float(Model().step(float(i))) for i in range(4)] == [0, 2, 4, 6]
    found = [(name.rpartition(".")[2], count) for name, count, _ in warm.times()]
    assert found == [("step", 4), ("<lambda>", 1), ("<lambda>", 1)]
    assert all(seconds > 0 for _, _, seconds in warm.times())
