"""calque explain: the plan of a function; the rules of a primitive with file and line.

Start reading at `explain_function` and `explain_primitive`.
"""
from __future__ import annotations

import difflib
import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import calque
from calque.core.primitive import FACTS, RULES, Primitive, registry
from calque.dispatch import numpy_rules
from calque.dispatch.eager import named_target
from calque.export import make  # noqa: F401  (fills the table of portable forms)
from calque.export.write import rules as portable_rules
from calque.lowering.driver.module import LowerOptions, lower
from calque.lowering.kernels.forms import FORMS, form_of
from calque.lowering.rules import rules as lowering_rules
from calque.lowering.target.targets import parse_target
from calque_cli.report import UsageError, wrapped

_ROOT = Path(calque.__file__).parents[1]
_WHY_NONE = {
    "factors": "results are replicated, or its programs are entered",
    "jvp": "not differentiable", "linearize": "by jvp", "transpose": "not linear in an operand"}


def explain_function(where: str, args: Sequence[str], static: Sequence[str],
                     constraints: Sequence[str], target: str, as_json: bool, html: Path) -> None:
    """Print the plan of a function, or write it as a page."""
    from calque_cli.functions import traced_function
    chosen = named_target(target)
    with traced_function(where, args, static, constraints=constraints) as traced:
        made = lower(traced.program, chosen, LowerOptions(
            donated=traced.donated, in_process=True, name=where.rpartition(":")[2])).plan
    if html.name:
        html.write_text(made.to_html(), "utf-8")
        typer.echo(f"wrote {html}")
    else:
        typer.echo(json.dumps(made.to_dict(), indent=2) if as_json else str(made))


def all_rules(p: Primitive) -> dict[str, Callable[..., Any] | None]:
    """Rule name -> function: those of the record, then those that other folders keep by name."""
    found = {kind: getattr(p, kind) for kind in RULES}
    return {**found, "factors": p.factors, "lowering": lowering_rules.get(p.name),
            "numpy": numpy_rules.RULES.get(p.name),
            "portable": portable_rules.get(p.name, p.program)}


def facts_of(p: Primitive) -> list[str]:
    """What the record says of a primitive beside its rules, as core/primitive.py names it."""
    found = ((name, getattr(p, name)) for name in FACTS)
    return [name if value is True else f"{name} {value}" for name, value in found
            if value not in ("", False, None)]


def place_of(rule: Callable[..., Any]) -> str:
    """calque/primitives/elementwise.py:120, or '' for a built-in."""
    while True:
        if isinstance(rule, functools.partial):
            rule = rule.func
        elif hasattr(rule, "__wrapped__"):
            rule = rule.__wrapped__
        else:
            break
    code = getattr(rule, "__code__", None)
    if code is None:
        return ""
    return f"{_relative(code.co_filename)}:{code.co_firstlineno}"


def _relative(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else os.path.relpath(path)


def named_in(p: Primitive) -> list[str]:
    """Where the primitive's name stands in the files of its rules: the rows of tables."""
    files = {place_of(f).rpartition(":")[0] for f in all_rules(p).values() if f is not None}
    quoted = re.compile(rf"""["']{re.escape(p.name)}["']""")
    found = []
    for file in sorted(files - {""}):
        for number, line in enumerate((_ROOT / file).read_text("utf-8").splitlines(), 1):
            if quoted.search(line):
                found.append(f"{file}:{number}: {line.strip()}")
    return found


# functions of NumPy's -> the primitive that does their work
_OF_NUMPY = {
    "matmul": "dot_general", "dot": "dot_general", "einsum": "dot_general",
    "tensordot": "dot_general", "vdot": "dot_general", "inner": "dot_general",
    "outer": "mul", "where": "select_n", "power": "pow", "divide": "div", "subtract": "sub",
    "multiply": "mul", "negative": "neg", "absolute": "abs", "zeros": "broadcast_in_dim",
    "ones": "broadcast_in_dim", "full": "broadcast_in_dim", "arange": "iota",
    "astype": "convert_element_type", "take": "gather", "stack": "concatenate",
    "swapaxes": "transpose", "moveaxis": "transpose", "flip": "rev", "clip": "clamp"}


def explain_primitive(name: str) -> None:
    """Print one primitive's rules."""
    if name not in registry:
        # first what begins with the name: dot is dot_general, reduce_max one of many
        near = [_OF_NUMPY[name]] if name in _OF_NUMPY else []
        near += [n for n in (f"reduce_{name}", f"reduce_{name[1:]}") if n in registry][:1]
        near += sorted(n for n in registry if n.startswith(name + "_"))[:5]
        near += difflib.get_close_matches(name, registry, 5, 0.5)
        near = list(dict.fromkeys(near))
        raise UsageError(f"no primitive {name!r}.",
                         (f"did you mean {', '.join(near[:5])}? " if near else "")
                         + "`calque explain` lists all primitives.")
    p = registry[name]
    typer.echo(name)
    typer.echo(wrapped("  facts      " + ", ".join(facts_of(p)), 13))
    for kind, rule in all_rules(p).items():
        if rule is None:
            text = f"none ({_WHY_NONE[kind]})" if kind in _WHY_NONE else "none"
        else:
            text = place_of(rule) or repr(rule)
        typer.echo(f"  {kind:<10} {text}")
    _forms_of(name)
    rows = named_in(p)
    if rows:
        typer.echo("  named in")
    for row in rows:
        typer.echo(wrapped(f"    {row}", 6))
    typer.echo(wrapped(_verdict(p)))


def _verdict(p: Primitive) -> str:
    """What a user may do with it, in a sentence."""
    has = all_rules(p)
    can = [what for what, there in (
        ("compiled", has["lowering"] or p.program),
        ("differentiated", has["jvp"] or has["linearize"]),
        ("mapped by vmap", has["batch"]), ("exported to JAX", has["portable"])) if there]
    if not can:
        return f"{p.name} is evaluated as it is met."
    return f"{p.name} can be {', '.join(can[:-1])}{' and ' if can[1:] else ''}{can[-1]}."


_SHOWN = ("cpu", "cpu:x86-64-v3", "cpu:x86-64", "cpu:aarch64", "cuda:sm_80", "vulkan:lavapipe")


def _forms_of(name: str) -> None:
    """Print the forms of a primitive in the order of preference, and what targets take."""
    if name not in FORMS:
        return
    typer.echo("  forms, the first that a target has")
    for form in FORMS[name]:
        source = f" (lowering/native/{form.source}.c)" if form.source else ""
        typer.echo(wrapped(f"    {form.kind:<10} {form.text}{source}", 15))
    taken = {t: form_of(name, parse_target(t), np.dtype(np.float32), t == "cpu") or "none"
             for t in _SHOWN}
    typer.echo(wrapped("  taken: " + ", ".join(f"{t} {kind}" for t, kind in taken.items()), 9))


def table_of_primitives() -> None:
    """Print every primitive and the rules it has."""
    kinds = list(all_rules(next(iter(registry.values()))))
    width = max(map(len, registry))
    typer.echo(f"{'primitive':<{width}} " + " ".join(f"{k[:4]:<4}" for k in kinds).rstrip())
    count = dict.fromkeys(kinds, 0)
    for name in sorted(registry):
        rules = all_rules(registry[name])
        count.update({k: count[k] + (rule is not None) for k, rule in rules.items()})
        typer.echo(f"{name:<{width}} " + " ".join(
            f"{'yes' if rule is not None else '-':<4}" for rule in rules.values()).rstrip())
    typer.echo(wrapped(f"{len(registry)} primitives; with a rule of each kind: "
                       + ", ".join(f"{k} {n}" for k, n in count.items())
                       + ". `calque explain NAME` says where the rules are."))
