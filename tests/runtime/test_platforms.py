"""Artifacts for several platforms: each part has the functions that lax.platform_dependent was
given for its own, whatever machine it is made on.
"""
from __future__ import annotations

import numpy as np
import pytest
from calque_cli.app import app
from typer.testing import CliRunner

import calque
from calque import aot, lax
from calque.aot.artifacts import Part, for_platforms
from calque.dispatch.eager import named_target
from calque.runtime.aot import read_records
from calque.transforms.stage import replay

X = np.arange(3, dtype=np.float32)


def f(x):
    return lax.platform_dependent(x, cpu=lambda x: x + 1, gpu=lambda x: x + 2)


def test_functions_are_traced_for_the_targets():
    targets = [named_target(n) for n in ("cpu:x86-64-v3", "cuda:sm_80", "cpu:x86-64-v2")]
    inner = calque.jit(f)
    inner(X)  # (what was traced for this machine is not taken for another)
    found = {}

    def build(some):
        traced = aot.trace(lambda x: inner(x) * 2, "f32[3]")
        found[tuple(t.name for t in some)] = np.asarray(replay(traced.program, X)[0])
        return aot.Artifact(tuple(Part("f", t.name, b"") for t in some))

    made = for_platforms(targets, build)
    assert [p.target for p in made.parts] == [t.name for t in targets]
    assert list(found) == [("cpu:x86-64-v3", "cpu:x86-64-v2"), ("cuda:sm_80",)]
    for got, more in zip(found.values(), (1, 2)):
        np.testing.assert_array_equal(got, (X + more) * 2)
    np.testing.assert_array_equal(calque.jit(lambda x: inner(x) * 2)(X), (X + 1) * 2)


def test_a_failure_leaves_nothing_behind():
    """Also while somebody holds the error."""
    def build(some):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError) as kept:
        for_platforms([named_target("cuda:sm_80")], build)
    assert calque.config.exported_platforms() is None and kept.value is not None
    np.testing.assert_array_equal(calque.jit(lambda x: f(x) - 1)(X), X)


def test_an_artifact_runs_here():
    made = aot.compile(f, "f32[3]", targets=("cpu", "cuda:sm_80"), name="f")
    assert [p.target.partition(":")[0] for p in made.parts] == ["cpu", "cuda"]
    np.testing.assert_array_equal(aot.load(made.vmfb)["f"](X)[0].numpy(), X + 1)


class Counter(aot.Module):
    def __init__(self):
        self.total = np.zeros(3, np.float32)

    @aot.export("f32[3]")
    def add(self, x):
        self.total = self.total + f(x)
        return self.total


def test_a_module_runs_here():
    made = Counter().compile(targets=("cpu", "cuda:sm_80"))
    assert {p.target.partition(":")[0] for p in made.parts} == {"cpu", "cuda"}
    assert sorted(made.names) == ["add", "initial_state"]


@pytest.mark.parametrize("of", ["f", "Counter"])
def test_the_command(of, tmp_path):
    made = tmp_path / "made.vmfb"
    given = ["--arg", "f32[3]"] if of == "f" else []
    ran = CliRunner().invoke(app, ["compile", f"{__file__}:{of}", *given, "--target",
                                   "cpu,cuda:sm_80", "-o", str(made)])
    assert ran.exit_code == 0, ran.output
    records = read_records(made)
    assert {r.target["name"].partition(":")[0] for r in records} == {"cpu", "cuda"}
    if of == "f":
        np.testing.assert_array_equal(aot.load(made)["f"](X)[0].numpy(), X + 1)
