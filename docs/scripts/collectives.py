"""Writes the table of collectives in docs/many_devices.md, from what they are when they are traced.

    python docs/scripts/collectives.py

Every entry is tried on a mesh of 2 x 2 without devices: names, groups, what a call is made of, what
it transposes to, and over which axes its result varies where that is checked.
"""
from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.primitive import registry
from calque.core.program import Program
from calque.primitives import casts
from calque.sharding import AbstractMesh
from calque.sharding import PartitionSpec as P

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "many_devices.md"
HEAD = "| collective | axes | groups | made of | transposes to | checked: varies over |"
MESH = AbstractMesh((2, 2), ("i", "j"))
EQUAL, UNEQUAL = [[0], [1]], [[0], [1, 2, 3]]
ROWS = AbstractMesh((4,), ("i",))  # for groups of unequal sizes
Call = Callable[..., Any]

CALLS: dict[str, Call] = {
    "psum": lax.psum, "pmean": lax.pmean, "pmax": lax.pmax, "pmin": lax.pmin,
    "all_gather": lax.all_gather,
    "psum_scatter": lambda x, n, **k: lax.psum_scatter(x, n, tiled=True, **k),
    "all_to_all": lambda x, n, **k: lax.all_to_all(x, n, 0, 0, tiled=True, **k),
    "pswapaxes": lambda x, n, axis_index_groups=None: lax.pswapaxes(
        x[:len(axis_index_groups[0]) if axis_index_groups else lax.axis_size(n)], n, 0,
        axis_index_groups=axis_index_groups),
    "ppermute": lambda x, n: lax.ppermute(x, n, [(0, 1), (1, 0)]),
    "pshuffle": lambda x, n: lax.pshuffle(x, n, [*range(1, lax.axis_size(n)), 0]),
    "pbroadcast": lambda x, n: lax.pbroadcast(x, n, 0),
    "ragged_all_to_all": lambda x, n: lax.ragged_all_to_all(
        x, jnp.zeros_like(x), *[jnp.zeros(lax.axis_size(n), "int32")] * 4, axis_name=n),
    "axis_index": lambda x, n: x + lax.axis_index(n),
    "pcast": lambda x, n: lax.pcast(x, n, to="varying"), "pvary": lax.pvary}


def traced(f: Call, mesh: AbstractMesh = MESH, check: bool = False, shape: tuple[int, ...] = (4, 4)
           ) -> Program | None:
    """The body of a shard_map of f over replicated values; None where f refuses."""
    try:
        mapped = calque.shard_map(f, mesh=mesh, in_specs=P(), check_vma=check,
                                  out_specs=P(tuple(mesh.axis_names)))
        program = calque.make_jaxpr(mapped)(jnp.ones(shape))
    except (TypeError, ValueError, NotImplementedError):
        return None
    return next(e.params["jaxpr"] for e in program.equations if e.primitive.name == "shard_map")


def names(p: Program) -> list[str]:
    """The collectives that a program is made of, in order, each once."""
    found = [e.primitive.name for e in p.equations if e.primitive.collective is not None
             or e.primitive.name == "axis_index"]
    for e in p.equations:
        for value in e.params.values():
            for q in value if isinstance(value, tuple) else (value,):
                if isinstance(q, Program):
                    found += names(q)
    return list(dict.fromkeys(found))


def row(name: str) -> list[str]:
    call = CALLS[name]
    checked = name in ("pcast", "pvary")
    one = traced(lambda x: call(x, "i"), check=checked)
    assert one is not None, name
    several = traced(lambda x: call(x, ("i", "j")), check=checked)
    equal = traced(lambda x: call(x, "i", axis_index_groups=EQUAL))
    unequal = traced(lambda x: call(x, "i", axis_index_groups=UNEQUAL), ROWS)
    groups = "" if equal is None else "equal ones" if unequal is None else "of any sizes"
    back = traced(lambda x: calque.vjp(lambda v: call(v, "i"), x)[1](call(x, "i"))[0],
                  check=checked)
    forth = names(one)
    found = [] if back is None else [n for n in names(back) if n != "axis_index"]
    rest = [n for n in found if n not in forth] or found
    varies: list[Any] = []

    def typed(x: Any) -> Any:
        made = call(x if checked else lax.pcast(x, ("i", "j"), to="varying"), "i")
        varies.extend(sorted(calque.typeof(made).vma))
        return made

    traced(typed, check=True)
    return [f"`{name}`", "one" if several is None else "several", groups, _quoted(forth),
            _quoted(rest), ", ".join(varies)]


def _quoted(words: list[str]) -> str:
    return ", ".join(f"`{w}`" for w in words)


def table() -> str:
    lines = [HEAD, "|---" * HEAD.count(" | ") + "|---|"]
    seen: set[str] = set()
    for name in CALLS:
        cells = row(name)
        lines.append("| " + " | ".join(cells) + " |")
        seen |= {n.strip("` ") for n in (*cells[3].split(","), *cells[4].split(","))}
    of_sums = {p.name for p in (*casts.CASTS, *casts.COLLECTIVES, casts.invary_unreduced_cast_p)}
    missing = {n for n, p in registry.items() if p.collective is not None
               and not n.startswith("message_")} - seen - of_sums  # those have a table by hand
    assert not missing, f"collectives without a row: {missing}"
    return "\n".join(lines)


def replaced(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(HEAD)
    _, _, after = rest.partition("\n\n")
    return f"{before}{table()}\n\n{after}"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text("utf-8")), "utf-8")
    print(f"wrote {PAGE}")
