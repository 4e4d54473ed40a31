"""A program's plan: its regions in order, as text, as JSON and as a page.

Start reading at `Plan`.
"""
from __future__ import annotations

import math
import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dims import is_static
from calque.core.program import Equation
from calque.lowering.plan.record import FAMILIES, Region, Spec
from calque.lowering.plan.refusal import Refusal, place

WIDTH = 80
FEW_NAMES = 5  # kinds of operations that a line names


@dataclass(frozen=True, slots=True)
class Plan:
    """What a program becomes: `str()` gives it as text, `to_dict()` for JSON, `to_html()` a page.

    Attributes:
      name, target: of what, for what.
      inputs, outputs: shapes and dtypes of what is passed and of what is computed.
      regions: in the order of the program (plan/record.Region).
      inline: whether a call runs on its caller's thread; work, limit: the element operations that
        it is estimated to do, and from where on it is queued.
      whole: why it is not one kernel, None where it is, or could not be.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> print(calque.jit(lambda x: x / x.sum()).lower(jnp.ones(8)).plan())  # doctest: +ELLIPSIS
      jit_<lambda> for cpu...: 1 kernel
      ...
    """

    name: str
    target: str
    inputs: Sequence[Spec]
    outputs: Sequence[Spec]
    regions: Sequence[Region]
    inline: bool
    work: Any
    limit: int
    whole: Refusal | None

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__

    @property
    def is_worth_telling(self) -> bool:
        """Whether it is more than one kernel or a few operations, or something was refused."""
        return len(self.regions) > 1 or any(r.refused or r.inner for r in self.regions)

    def to_dict(self) -> dict[str, Any]:
        """The plan in numbers, strings, lists and dicts."""
        return {
            "name": self.name, "target": self.target,
            "inputs": list(map(_type, self.inputs)), "outputs": list(map(_type, self.outputs)),
            "runs": _how(self),
            "work": self.work if isinstance(self.work, int) else str(self.work),
            "queued_from": self.limit,
            "not_one_kernel": None if self.whole is None else _why(self.whole),
            "regions": list(map(_as_dict, self.regions))}

    def to_html(self) -> str:
        """The same as a page that needs nothing beside it."""
        from calque.lowering.plan.page import page
        return page(self.to_dict())


def counts(regions: Sequence[Region]) -> Counter[str]:
    """Kernels, loops and branches from the host, calls of Python, and operations that are IREE's,
    at any depth."""
    found: Counter[str] = Counter()
    for r in regions:
        found += counts(r.inner)
        if r.family == "iree":
            found["operations for IREE"] += len(r.equations)
        else:
            found[r.family if r.family in ("host loop", "host branch", "callback")
                  else "kernel"] += 1
    return found


def _summary(regions: Sequence[Region]) -> str:
    found = counts(regions)
    named = {"kernel": "kernel", "host loop": "loop from the host",
             "host branch": "branch from the host", "callback": "call of Python",
             "operations for IREE": "operation for IREE"}
    parts = [f"{found[k]:,} {name.replace(' ', 's ', 1) if ' ' in name else name + 's'}"
             if found[k] > 1 else f"1 {name}" for k, name in named.items() if found[k]]
    return ", ".join(parts) or "nothing to compute"


def _lines(plan: Plan) -> Iterator[str]:
    yield from _wrapped(f"{plan.name} for {plan.target}: {_summary(plan.regions)}", 0)
    work = f"{plan.work:,}" if isinstance(plan.work, int) else str(plan.work)
    if plan.target.startswith("cpu"):
        yield from _wrapped(f"a call runs {_how(plan)}: about {work} element operations "
                            f"({_border(plan)})", 2)
    if plan.whole is not None and len(plan.regions) > 1:
        yield from _wrapped(f"not one kernel: {_sentence(plan.whole)}", 2)
    yield from _regions(plan.regions, "", 2)


def _how(plan: Plan) -> str:
    return "on its caller's thread" if plan.inline else "queued"


def _border(plan: Plan) -> str:
    if not plan.limit:
        return "with loops from the host it is queued"
    return ("queued from" if plan.inline else "on the caller's thread below") + f" {plan.limit:,}"


def _regions(regions: Sequence[Region], number: str, indent: int) -> Iterator[str]:
    for i, r in enumerate(regions, 1):
        mine = f"{number}{i}"
        yield from _wrapped(f"{mine:<3} {_title(r)}", indent, 4)
        for line in _details(r):
            yield from _wrapped(line, indent + 4, 2)
        yield from _regions(r.inner, f"{mine}.", indent + 2)


def _title(r: Region) -> str:
    where = places(r.equations)
    return FAMILIES[r.family] + (f"  {where}" if where else "")


def _details(r: Region) -> Iterator[str]:
    if r.family in ("host loop", "registers", "memory") and r.equations:
        steps = steps_of(r)
        yield ("the data decides when it ends" if steps is None else
               f"{steps:,} steps" if isinstance(steps, int) else f"{steps} steps")
    elif r.family != "callback":
        yield operations(r.equations)
    if r.reads or r.writes:
        groups = f", {r.groups} workgroups" if r.groups > 1 else ""
        yield (f"reads {_types(r.reads)}; writes {_types(r.writes)}"
               f" ({size(r.reads, r.writes)}{groups})")
    for why, n in Counter(map(_sentence, r.refused)).items():
        yield f"because {why}" + (f" ({n} times)" if n > 1 else "")


def steps_of(r: Region) -> Any:
    """How often a loop runs; None where the data decides."""
    e = r.equations[0]
    return e.params.get("length") if e.name == "scan" else None


def operations(equations: Sequence[Equation]) -> str:
    """What equations do: 3 add, 2 mul, exp."""
    found = Counter(e.name for e in equations)
    named = [name if n == 1 else f"{n} {name}" for name, n in found.most_common(FEW_NAMES)]
    left = len(found) - len(named)
    return ", ".join(named) + (f" and {left} kinds more" if left else "")


def places(equations: Sequence[Equation]) -> str:
    """Where they stand: model.py:3-9, or the first of several files."""
    lines: dict[str, set[int]] = {}
    for e in equations:
        file, _, line = place(e).rpartition(":")
        if file:
            lines.setdefault(file, set()).add(int(line))
    if not lines:
        return ""
    file, found = max(lines.items(), key=lambda item: len(item[1]))
    low, high = min(found), max(found)
    return f"{os.path.basename(file)}:{low}" + (f"-{high}" if high > low else "") + (
        " and others" if len(lines) > 1 else "")


def _sentence(r: Refusal) -> str:
    where = r.place
    return r.text + (f" ({os.path.basename(where)})" if where else "")


def _type(spec: Spec) -> str:
    shape, dtype = spec
    return str(ShapedArray(tuple(shape), dtype))


def _types(specs: Sequence[Spec]) -> str:
    shown = [_type(s) for s in specs[:4]]
    return ", ".join(shown) + (f" and {len(specs) - 4} more" if len(specs) > 4 else "") or "nothing"


def _nbytes(specs: Sequence[Spec]) -> int | None:
    if not all(is_static(s) for s, _ in specs):
        return None
    return sum(math.prod(s) * np.dtype(d).itemsize for s, d in specs)


def size(reads: Sequence[Spec], writes: Sequence[Spec]) -> str:
    """Bytes, in a unit that fits."""
    n = _nbytes([*reads, *writes])
    if n is None:
        return "a size known at the call"
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= bytes_:
            return f"{n / bytes_:.1f} {unit}"
    return f"{n} bytes"


def _wrapped(text: str, indent: int, hang: int = 2) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * indent,
                         subsequent_indent=" " * (indent + hang), break_long_words=False,
                         break_on_hyphens=False)


def _why(r: Refusal) -> dict[str, Any]:
    return {"fact": r.fact, "text": r.text, "at": r.place, "met": r.n, "limit": r.limit}


def _as_dict(r: Region) -> dict[str, Any]:
    found: dict[str, Any] = {
        "family": r.family, "what": FAMILIES[r.family], "kernel": r.implementation,
        "operations": dict(Counter(e.name for e in r.equations)),
        "at": sorted({place(e) for e in r.equations} - {""}),
        "reads": list(map(_type, r.reads)), "writes": list(map(_type, r.writes)),
        "bytes": _nbytes([*r.reads, *r.writes]), "workgroups": r.groups,
        "because": list(map(_why, r.refused))}
    if r.family in ("host loop", "registers", "memory") and r.equations:
        steps = steps_of(r)
        found["steps"] = steps if steps is None or isinstance(steps, int) else str(steps)
    return {**found, "inner": list(map(_as_dict, r.inner))}
