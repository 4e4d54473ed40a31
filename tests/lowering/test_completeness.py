"""Every primitive has all its rules, a lowering, samples and an oracle; what lacks is named."""
from __future__ import annotations

import oracle
import pytest
import samples

from calque.core.primitive import Primitive, registry
from calque.lowering.rules import rules

# structurally linear primitives: a cotangent may reach them
LINEAR = [n for n, r in samples.ROWS.items() if r.linear] + [
    "add", "sub", "add_any", "jit", "cond", "scan"]


ELSEWHERE = {  # what they do is no function of arrays
    "dim_as_value": "tests/lowering/test_dynamic.py",
    "pure_callback": "tests/frontend/test_callbacks.py",
    "io_callback": "tests/frontend/test_callbacks.py",
    "debug_callback": "tests/frontend/test_callbacks.py",
    **{name: "tests/transforms/test_custom.py" for name in (
        "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_lin", "checkpoint",
        "custom_linear_solve")},
    **{name: "tests/transforms/test_collectives.py" for name in (
        "psum", "pmax", "pmin", "ppermute", "all_gather", "reduce_scatter", "all_to_all",
        "axis_index")}}


def missing(p: Primitive) -> list[str]:
    found = [kind for kind in ("abstract", "batch") if getattr(p, kind) is None]
    if p.differentiable and p.jvp is None and p.linearize is None:
        found.append("jvp or linearize")
    if p.higher_order and (p.jvp is None or p.linearize is None):
        found.append("jvp and linearize (higher order)")
    if p.name in LINEAR and p.transpose is None:
        found.append("transpose")
    if p.name not in rules:
        found.append("lowering rule (lowering/rules)")
    if p.name in ELSEWHERE:
        return found
    if p.name not in samples.ROWS:
        found.append("samples (tests/samples.py)")
    elif not any(0 in o.shape for s in samples.ROWS[p.name].samples for o in s.operands) and (
            p.name not in ("iota", "random_wrap", "random_unwrap", "jit", "random_fold_in",
                           "random_split", "random_bits", "rng_bit_generator")):
        found.append("a sample of size 0")
    if p.name not in oracle.ORACLES:
        found.append("oracle (tests/oracle.py)")
    return found


def test_every_primitive_is_complete() -> None:
    lacking = {name: m for name, p in registry.items() if (m := missing(p))}
    assert not lacking, "\n".join(f"{n} lacks {', '.join(m)}" for n, m in lacking.items())


def test_a_missing_rule_is_noticed() -> None:
    p = Primitive("nothing_at_all")
    try:
        assert missing(p) == ["abstract", "batch", "jvp or linearize",
                              "lowering rule (lowering/rules)", "samples (tests/samples.py)",
                              "oracle (tests/oracle.py)"]
    finally:
        del registry["nothing_at_all"]


@pytest.mark.parametrize("table", [rules, samples.ROWS, oracle.ORACLES])
def test_nothing_is_left_of_primitives_that_are_gone(table: dict[str, object]) -> None:
    assert set(table) <= set(registry)
