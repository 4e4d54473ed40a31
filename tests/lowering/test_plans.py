"""Plans: what becomes of the suite's workloads, as text; what `explain` says, and why.

    python tests/lowering/test_plans.py --write     # after a change of ways, to be looked at

Start reading at `plans`.
"""
from __future__ import annotations

import difflib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import calque
import calque.numpy as jnp
from calque import aot, export, lax, nn, random
from calque.dispatch.captured import with_few_captured
from calque.lowering.driver.module import LowerOptions, lower
from calque.lowering.kernels.forms import missing_objects
from calque.lowering.passes import cost, loops, registers
from calque.lowering.plan import record, show
from calque.lowering.plan.refusal import _TEXTS, Refusal
from calque.lowering.target.targets import parse_target

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "plans.txt"
TARGET = "cpu:x86-64-v3"  # the same on every machine


def lines_of(regions: Any, indent: str = "  ") -> Iterator[str]:
    """A line for each part: family, operations, bindings, facts in the way."""
    for r in regions:
        arrays = " ".join(map(show._type, r.reads)) + " -> " + " ".join(map(show._type, r.writes))
        why = ", ".join(dict.fromkeys(w.fact for w in r.refused))
        yield (f"{indent}{r.family}: {show.operations(r.equations)}"
               + (f" | {arrays}" if r.family not in ("iree", "host loop", "host branch") else "")
               + (f" | {r.groups} groups" if r.groups > 1 else "") + (f" | {why}" if why else ""))
        yield from lines_of(r.inner, indent + "  ")


def plans() -> Iterator[str]:
    """The plans of benchmarks/workloads.py."""
    sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
    import workloads
    target, lib = parse_target(TARGET), workloads.library("calque")
    for name, make in workloads.WORKLOADS.items():
        f, args = make(lib, 0)
        plan = lower(with_few_captured(calque.jit(f).trace(*args).jaxpr), target,
                     LowerOptions(in_process=True)).plan
        yield f"{name}: {'inline' if plan.inline else 'queued'}"
        yield from lines_of(plan.regions)


@pytest.mark.skipif(bool(missing_objects(parse_target(TARGET))), reason="no kernels in C here")
def test_the_ways_of_the_suite() -> None:
    found, kept = list(plans()), GOLDEN.read_text("utf-8").splitlines()
    assert found == kept, "\n".join(difflib.unified_diff(kept, found, lineterm="", n=1)) + (
        "\n  Fix: if that is meant, python tests/lowering/test_plans.py --write")


def plan_of(f: Any, *args: Any) -> show.Plan:
    return calque.jit(f).lower(*args).plan()


def facts(f: Any, *args: Any) -> list[tuple[str, list[str]]]:
    return [(r.family, [w.fact for w in r.refused]) for r in plan_of(f, *args).regions]


def stepped(body: Any) -> Any:
    return lambda c: lax.fori_loop(0, 1000, lambda i, c: body(c), c)


def test_why_a_loop_is_no_kernel() -> None:
    """A loop that the host runs names the operation that has no kernel, and its line."""
    cases = [
        (stepped(jnp.linalg.inv), jnp.eye(40), "matrix", 40),
        (stepped(lambda c: jnp.fft.fft(c).real), jnp.ones(5000), "dtype", 0),
        (stepped(lambda c: c @ c), jnp.eye(400), "work of a step", 16_000_001),
    ]
    for f, x, fact, n in cases:
        (region,) = [r for r in plan_of(f, x).regions if r.family == "host loop"]
        (why,) = region.refused
        assert (why.fact, why.n) == (fact, n)
        assert why.place.startswith(__file__) or fact == "work of a step"
        assert region.inner and region.equations[0].params["length"] == 1000


def test_why_a_loop_is_not_in_registers() -> None:
    assert facts(stepped(jnp.sin), jnp.ones(8)) == [("registers", [])]
    wide = stepped(lambda c: jnp.tanh(c @ jnp.ones((16, 16))))
    assert facts(wide, jnp.ones((50, 16))) == [("memory", ["array of a row"])]
    meeting = stepped(lambda c: c - c.mean(axis=0, keepdims=True))
    assert facts(meeting, jnp.ones((300, 16)))[0] == ("memory", ["rows meet"])


def test_why_a_product_is_not_in_c() -> None:
    found = facts(lambda x: jnp.cumsum(jnp.tanh(x @ x.T)), jnp.ones((80, 96)))
    assert [why for family, why in found if family == "iree"] == [["small product"]]
    if not missing_objects(parse_target("cpu")):
        assert "product" in dict(facts(lambda x: x @ x, jnp.ones((300, 300))))


def test_branches_callbacks_and_what_is_in_them() -> None:
    def f(x: Any, n: Any) -> Any:
        heavy = lax.cond(n > 0, lambda: jnp.linalg.inv(x) @ x, lambda: x.T @ x)
        return calque.pure_callback(lambda v: v, calque.ShapeDtypeStruct(x.shape, x.dtype), heavy)

    families = [r.family for r in plan_of(f, jnp.eye(100), 1).regions]
    assert "host branch" in families and families[-1] == "callback"
    inner = next(r for r in plan_of(f, jnp.eye(100), 1).regions if r.family == "host branch").inner
    assert {"linalg", "iree"} <= {r.family for r in inner}


def test_text_json_and_page() -> None:
    def step(x: Any, key: Any) -> Any:
        y = nn.softmax(x @ x.T)
        return lax.scan(lambda c, _: (jnp.linalg.inv(c) + random.uniform(key, c.shape), c.sum()),
                        y[:40, :40], None, 1000)

    plan = plan_of(step, jnp.ones((300, 300)), random.key(0))
    text, said = str(plan), " ".join(str(plan).split())
    assert max(map(len, text.splitlines())) <= show.WIDTH
    assert "loop from the host" in text and "1,000 steps" in text
    assert "matrices up to 32 x 32 are decomposed in a kernel (test_plans.py:" in said
    made = json.loads(json.dumps(plan.to_dict()))
    (loop,) = [r for r in made["regions"] if r["family"] == "host loop"]
    assert loop["steps"] == 1000 and loop["because"][0]["limit"] == loops.DECOMPOSED
    page = plan.to_html()
    assert page.startswith("<!doctype html>") and "jnp.linalg.inv(c)" in page
    assert page.count("<div") == page.count("</div>")
    empty = plan_of(lambda x: x, jnp.ones(3))
    assert "nothing to compute" in str(empty) and empty.to_dict()["regions"] == []


def test_sizes_known_at_the_call() -> None:
    (b,) = export.symbolic_shape("b")
    traced = aot.trace(lambda x: jnp.cumsum(x @ x.T, 0),
                       calque.ShapeDtypeStruct((b, 8), "float32"))
    plan = lower(traced.program, parse_target("cpu"), LowerOptions()).plan
    assert "b" in str(plan.work) and "f32[b,8]" not in str(plan)
    json.dumps(plan.to_dict())


def test_every_fact_has_its_sentence_and_every_family_its_name() -> None:
    for fact, text in _TEXTS.items():
        said = Refusal(None, fact, 3, 5).text
        assert said and "{" not in said and not said.endswith("."), (fact, text)
    with pytest.raises(KeyError):
        _ = Refusal(None, "unheard of").text
    assert {r.family for r in plan_of(jnp.exp, jnp.ones(5)).regions} <= set(record.FAMILIES)


def test_a_refusal_and_a_kernel_exclude_each_other() -> None:
    """What says why and what decides are one."""
    bodies = [jnp.sin, jnp.linalg.inv, lambda c: c @ c, lambda c: jnp.sort(c, axis=0),
              lambda c: c - c.mean(axis=0)]
    for body in bodies:
        for n in (4, 40, 300):
            p = calque.make_jaxpr(stepped(body))(jnp.ones((n, n)))
            for e in p.jaxpr.equations if hasattr(p, "jaxpr") else p.equations:
                if e.inner:
                    assert cost.is_kernel(e) == (cost.refusal(e) is None)
                    assert (registers.plan(e) is None) == (registers.refusal(e) is not None)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    GOLDEN.write_text("\n".join(plans()) + "\n", "utf-8")
    print(f"wrote {GOLDEN}")
