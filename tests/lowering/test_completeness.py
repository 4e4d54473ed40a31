"""Every primitive has all its rules, a lowering, samples and an oracle; what lacks is named."""
from __future__ import annotations

from collections.abc import Collection

import pytest
from support import oracle, samples

import calque
from calque.core.primitive import Primitive, registry
from calque.core.weights import MEASURED
from calque.dispatch import costs, numpy_rules, precompiled
from calque.export import make  # noqa: F401  (fills the table of portable forms)
from calque.export.write import CALLS
from calque.export.write import rules as portable
from calque.lowering.emit.aliasing import _IDENTITIES
from calque.lowering.kernels import reductions
from calque.lowering.kernels.forms import FORMS
from calque.lowering.passes import accumulate, cost, rows, scalars
from calque.lowering.rules import rules

# structurally linear primitives: a cotangent may reach them
LINEAR = [n for n, r in samples.ROWS.items() if r.linear] + [
    "add", "sub", "add_any", "jit", "cond", "scan"]


ELSEWHERE = {  # what they do is no function of arrays
    "dim_as_value": "tests/lowering/test_dynamic.py",
    "pure_callback": "tests/api/test_callbacks.py",
    "io_callback": "tests/api/test_callbacks.py",
    "debug_callback": "tests/api/test_callbacks.py",
    "ffi_call": "tests/api/test_ffi.py",
    "pallas_call": "tests/experimental/test_pallas.py",
    **{name: "tests/transforms/test_custom.py" for name in (
        "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_lin", "checkpoint",
        "custom_linear_solve")},
    **{name: "tests/transforms/test_collectives.py" for name in (
        "psum", "pmax", "pmin", "ppermute", "all_gather", "reduce_scatter", "all_to_all",
        "axis_index")},
    "psum_invariant": "tests/devices/test_collectives.py",
    "pvary": "tests/devices/test_collectives.py",
    "sharding_constraint": "tests/devices/test_jit.py",
    "layout_constraint": "tests/dispatch/test_laid.py",
    "inspect_sharding": "tests/devices/test_arrays.py",
    **dict.fromkeys(("custom_partitioning", "shard_alike"),
                    "tests/devices/test_custom_partitioning.py"),
    "shard_map": "tests/devices/test_shard_map.py"}
MESSAGES = ("message_reduce", "message_gather", "message_exchange", "message_scatter",
            "message_permute")  # between processes: made when a program is compiled
ELSEWHERE |= dict.fromkeys((*MESSAGES, "message_shift"), "tests/processes/test_programs.py")
CASTS = ("preduced", "reduced_invary_cast", "reduced_vary_cast", "vary_unreduced_cast")
ELSEWHERE |= dict.fromkeys(
    (*CASTS, "invary_unreduced_cast", "unreduced_psum", "unreduced_reduce_scatter",
     "all_gather_reduced"), "tests/devices/test_unreduced_maps.py")
PLACED = (*CASTS, "pvary", "sharding_constraint", "layout_constraint", "inspect_sharding",
          "shard_map", "pallas_call", "custom_partitioning", "shard_alike",
          "message_shift")  # gone before lowering:
# passes/hoist writes out what one device's part is, and what a kernel is on whole arrays


def missing(p: Primitive) -> list[str]:
    found = [kind for kind in ("abstract", "batch") if getattr(p, kind) is None]
    if p.differentiable and p.jvp is None and p.linearize is None:
        found.append("jvp or linearize")
    if p.higher_order and (p.jvp is None or p.linearize is None):
        found.append("jvp and linearize (higher order)")
    if p.name in LINEAR and p.transpose is None:
        found.append("transpose")
    if p.name not in rules and p.name not in PLACED:
        found.append("lowering rule (lowering/rules)")
    if p.elementwise and p.name not in MEASURED and p.arity is not None:
        found.append("weight (python benchmarks/weights.py --write)")
    if p.elementwise and p.function and not p.memory:
        found.append('memory="fresh" or "folds"')
    if p.name not in {**portable, **CALLS, **dict.fromkeys(MESSAGES)} and (
            p.program is None and p.collective is None):
        found.append("portable form (calque/export/forms.py)")
    if p.name in ELSEWHERE:
        return found
    if p.name not in samples.ROWS:
        found.append("samples (tests/support/samples.py)")
    elif not any(0 in o.shape for s in samples.ROWS[p.name].samples for o in s.operands) and (
            p.name not in ("iota", "random_wrap", "random_unwrap", "jit", "random_fold_in",
                           "random_split", "random_bits", "rng_bit_generator")):
        found.append("a sample of size 0")
    if p.name not in oracle.ORACLES:
        found.append("oracle (tests/support/oracle.py)")
    return found


def test_every_primitive_is_complete() -> None:
    lacking = {name: m for name, p in registry.items() if (m := missing(p))}
    assert not lacking, "\n".join(f"{n} lacks {', '.join(m)}" for n, m in lacking.items())


def test_a_missing_rule_is_noticed() -> None:
    p = Primitive("nothing_at_all")
    try:
        assert missing(p) == ["abstract", "batch", "jvp or linearize",
                              "lowering rule (lowering/rules)",
                              "portable form (calque/export/forms.py)",
                              "samples (tests/support/samples.py)",
                              "oracle (tests/support/oracle.py)"]
    finally:
        del registry["nothing_at_all"]


@pytest.mark.parametrize("table", [
    rules, samples.ROWS, oracle.ORACLES, portable, CALLS, MEASURED, numpy_rules.RULES,
    numpy_rules.READS_PARTS, numpy_rules.PARTS, precompiled.UNARY, precompiled.BINARY,
    precompiled._RARE, costs._FACTORS, costs._ROUNDS, FORMS, reductions.FOLDS, scalars.FOLDS,
    scalars.JOINS, scalars.KNOWN,
    rows.VIEWS, rows.FUSED, rows.SLOW, accumulate.LINEAR, _IDENTITIES])
def test_nothing_is_left_of_primitives_that_are_gone(table: Collection[str]) -> None:
    assert set(table) <= set(registry)


def test_facts_are_words_that_lowering_knows() -> None:
    for p in registry.values():
        assert p.memory in ("", "fresh", "folds", "view", "updates"), p
        assert p.kernel in ("", "map", "view", "fold", "loop", "nest", "expanded"), p
        assert bool(p.kernel) != bool(p.no_kernel) or not p.elementwise, p
        assert p.weight >= 1, p


def test_what_costs_more_than_some_additions_is_a_function() -> None:
    for p in registry.values():
        # rem: a division in a loop; threefry2x32: 20 rounds of integers
        if p.elementwise and p.weight > 3 and p.name not in ("rem", "threefry2x32"):
            assert p.function, p
    assert {r for r in samples.FUNCTIONS if not registry[r].function} == set()


@pytest.mark.parametrize("name", ["igamma", "zeta", "lgamma", "digamma", "erf_inv"])
def test_long_functions_do_not_keep_their_caller(name: str) -> None:
    """Of 400,000 elements (`igamma` of them takes 50 ms)."""
    arity = 2 if name in ("igamma", "zeta") else 1
    spec = calque.ShapeDtypeStruct((400_000,), "float32")
    program = calque.make_jaxpr(lambda *xs: registry[name].bind(*xs))(*[spec] * arity).jaxpr
    assert not cost.runs_inline(program)


@pytest.mark.parametrize(("n", "inline"), [(60, True), (400, False)])
@pytest.mark.parametrize("name", ["lu", "cholesky", "solve", "qr"])
def test_what_c_makes_of_few_rows_is_called_at_once(name: str, n: int, inline: bool) -> None:
    """A decomposition counts as the C kernel that computes it, not as its Program."""
    f = {"lu": calque.lax.linalg.lu, "qr": calque.numpy.linalg.qr,
         "cholesky": calque.lax.linalg.cholesky,
         "solve": lambda a: calque.numpy.linalg.solve(a, a[0])}[name]
    program = calque.make_jaxpr(f)(calque.ShapeDtypeStruct((n, n), "float32")).jaxpr
    assert cost.runs_inline(program) == inline


@pytest.mark.parametrize(("dtype", "added", "turned"), [
    ("int8", True, True), ("bool", True, True), ("bfloat16", False, True),
    ("float32", False, False), ("int32", False, False)])
def test_elements_of_a_byte_count_as_less(dtype: str, added: bool, turned: bool) -> None:
    """800,000 of them: whether a call runs on its caller's thread."""
    x = calque.ShapeDtypeStruct((1000, 800), dtype)
    for f, inline in ((lambda x: x | x if dtype == "bool" else x + x, added),
                      (lambda x: x[::-1], turned)):
        assert cost.runs_inline(calque.make_jaxpr(f)(x).jaxpr) == inline
