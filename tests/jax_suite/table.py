"""Joins the rows of calque and of jax: a table with a row for each file, and lists of failures.

Counted are tests that jax passes on the same machine, or that calque passes and jax was not asked
for; what only jax can answer (kind `private`) stands apart.
"""
from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterator
from typing import Any

import judge
from one_file import Row, read

Counts = collections.Counter[str]
HEAD = ["file", "in file", "run", "passed", "private", *judge.KINDS, "skipped", "%",
        "% without texts"]


def by_id(path: pathlib.Path) -> dict[str, Row]:
    """The row of each test; of several the one that failed."""
    rows: dict[str, Row] = {}
    for row in read(path):
        if "id" in row and (row["id"] not in rows or row["outcome"] == "failed"):
            rows[row["id"]] = row
    return rows


def outcome(row: Row, jax: Row | None) -> str:
    """What a row of calque's counts as, beside jax's row of the same test."""
    if row["outcome"] == "passed":
        return "passed"
    if row["outcome"] == "skipped":
        return "skipped"
    kind = judge.kind(row)
    if kind != "private" and (jax is None or jax["outcome"] != "passed"):
        return "not compared"
    return kind


def counts(out: pathlib.Path, name: str) -> Counts:
    """How many tests of a file have each outcome."""
    jax = by_id(out / "jax" / f"{name}.jsonl")
    rows = by_id(out / "calque" / f"{name}.jsonl")
    return collections.Counter(outcome(row, jax.get(i)) for i, row in rows.items())


def notes(out: pathlib.Path, name: str) -> tuple[str, str]:
    """How many tests a file has, and what its row says of how it was run."""
    meta: list[dict[str, Any]] = [r for r in read(out / "calque" / f"{name}.jsonl") if "meta" in r]
    first = next((r for r in meta if r["meta"] == "collected"), {"total": "?", "kept": 0})
    if any(r["meta"] == "not collected" for r in meta) or first["total"] == "?":
        return str(first["total"]), " (not collected)"
    said = []
    if any(r["meta"] in ("limit", "pytest") for r in meta) or first["kept"] != first["total"]:
        said.append("sample")
    return str(first["total"]), f" ({', '.join(said)})" if said else ""


def _row(name: str, total: str, n: Counts) -> str:
    public = n["passed"] + sum(n[k] for k in judge.KINDS)
    texts = public - n["message"]
    cells = [name, total, sum(n.values()), n["passed"], n["private"] or "",
             *(n[k] or "" for k in judge.KINDS), n["skipped"] or "",
             *(f"{100 * n['passed'] / of:.1f}" if of else "" for of in (public, texts))]
    return f"| {' | '.join(map(str, cells))} |"


def _earlier(text: str) -> dict[str, tuple[str, Counts]]:
    """The rows of a table that was written before: of each file its line and its counts."""
    found = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) != len(HEAD) or cells[0] in ("file", "all") or set(cells[0]) <= {"-"}:
            continue
        n = {k: int(c) for k, c in zip(HEAD[3:-2], cells[3:-2]) if c.isdigit()}
        n["not compared"] = int(cells[2]) - sum(n.values())
        found[cells[0].split(" ")[0]] = line, collections.Counter(n)
    return found


def lines(out: pathlib.Path, before: str = "") -> Iterator[str]:
    """The table of all files that have rows; `before`: a table whose other rows stay."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---" * len(HEAD) + "|"
    rows = _earlier(before)
    for path in (out / "calque").glob("*.jsonl"):
        n = counts(out, path.stem)
        in_file, note = notes(out, path.stem)
        rows[path.stem] = _row(path.stem + note, in_file, n), n
    total: Counts = collections.Counter()
    for name in sorted(rows):
        line, n = rows[name]
        total += n
        yield line
    yield _row("all", "", total)
    yield ""
    yield (f"{total['not compared']} more failed and are not counted: jax was not asked, or does "
           "not pass them here.")


def failures(out: pathlib.Path, name: str, kinds: set[str], whole: bool = False) -> Iterator[str]:
    """What failed in a file, grouped by kind and message."""
    jax = by_id(out / "jax" / f"{name}.jsonl")
    groups: dict[tuple[str, str, str], list[Row]] = collections.defaultdict(list)
    for i, row in by_id(out / "calque" / f"{name}.jsonl").items():
        if row["outcome"] != "failed":
            continue
        kind = outcome(row, jax.get(i)) if jax else judge.kind(row)
        if not kinds or kind in kinds:
            groups[kind, row.get("error") or "", judge.shortened(row.get("message") or "")
                   ].append(row)
    for (kind, error, message), rows in sorted(groups.items(), key=lambda g: (
            g[0][0], -len(g[1]))):
        yield f"[{kind}] x{len(rows)} {error}: {message}"
        for row in rows[:9 if whole else 2]:
            yield f"    {row['id'].split('::', 1)[-1]} | {(row.get('where') or '')[:150]}"
            if whole:
                yield "      " + (row.get("message") or "")[:700].replace("\n", "\n      ")
                yield from (f"        {frame[:160]}" for frame in row.get("frames", [])[-3:])
