"""What a cell shows under calque beside what it shows under jax.

`same`; `text`: the same numbers in other words; `value`: other numbers; `error`: an error where jax
has none; `noraise`: none where jax has one; `after`: what an earlier failure left undone;
`missing`: a public name is absent; `crash`; `private`: the cell looks at JAX's implementation or at
what is made for TPUs and GPUs; `jax`: jax itself does not run it here.
"""
from __future__ import annotations

import math
import re
from typing import Any

Row = dict[str, Any]
KINDS = ("same", "text", "value", "noraise", "error", "missing", "after", "crash", "private", "jax")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")
_IGNORED = re.compile(r"0x[0-9a-f]+|\bat 0x\w+|[\w/.-]*/[\w/.-]+\.py|line \d+|"
                      r"\d+(?:\.\d+)? ?(?:[mnuµ]?s|sec\w*)\b")
_PRIVATE = re.compile(
    r"jax\._src|pallas|mosaic|\btpu\b|\bTPU\b|jaxlib|xla_client|jax\.lib\b|as_text\(|compiler_ir|"
    r"cost_analysis|memory_analysis|profiler\.|jax\.interpreters|jax\.extend\.(core|linear_util|mlir)|"
    r"\bgpu\b|print_saved_residuals|%pip|import (flax|optax|tensorflow|torch|grain|orbax)")
_JAXPR = re.compile(r"\{ ?lambda|module @|stablehlo\.")
# errors of jax that say what is not there on this machine, or what an earlier cell left undone
_OF_PLACES = frozenset(("NameError", "FileNotFoundError", "DuplicateFlagError", "AssertionError",
                        "JaxRuntimeError", "ZeroDivisionError"))
_OF_CLASSES = frozenset(("ImportError", "ModuleNotFoundError"))


def kind(cell: str, ours: Row | None, theirs: Row | None, broken: bool) -> str:
    """The kind of a cell; `broken`: a cell before it in its group failed with calque alone."""
    if theirs is None or theirs.get("error") in (*_OF_CLASSES, "TooLong"):
        return "jax"
    if ours is None:
        return "crash"
    if _PRIVATE.search(cell) or "_src" in (ours.get("message") or ""):
        return "same" if _agrees(ours, theirs) == "same" else "private"
    if theirs.get("error"):
        return _of_errors(ours, theirs)
    if re.search(r"\bexcept\b", cell) and "print" in cell and not ours.get("error"):
        agreed = _agrees(ours, theirs)  # (what is printed is an error's words)
        return "text" if agreed == "value" else agreed
    if ours.get("error"):
        if ours["error"] in _OF_CLASSES or "has no attribute" in ours["message"] and (
                "calque" in ours["message"] or "module" in ours["message"]):
            return "missing"
        return "after" if broken and ours["error"] == "NameError" else "error"
    return _agrees(ours, theirs)


def _of_errors(ours: Row, theirs: Row) -> str:
    if not ours.get("error"):
        return "jax" if theirs["error"] in _OF_PLACES else "noraise"
    same = ours["error"] == theirs["error"] or theirs["error"] in ours.get("kinds", ())
    return "same" if same else "jax" if theirs["error"] in _OF_PLACES else "text"


def _agrees(ours: Row, theirs: Row) -> str:
    if bool(ours.get("error")) != bool(theirs.get("error")):
        return "error"
    worst = "same"
    for key in ("printed", "value"):
        a, b = ours.get(key) or "", theirs.get(key) or ""
        if a == b:
            continue
        if _JAXPR.search(a) and _JAXPR.search(b):  # (their texts are no one's contract)
            worst = "text"
            continue
        if sorted(a.split("\n")) == sorted(b.split("\n")):  # (debug.print keeps no order)
            continue
        x, y = ([_words(t), _words("\n".join(sorted(t.split("\n"))))] for t in (a, b))
        if _close(x[1][0], y[1][0]) and x[1][1] == y[1][1]:
            continue
        x, y = x[0], y[0]
        if not _close(x[0], y[0]):
            return "value"
        if x[1] != y[1]:
            worst = "text"
    return worst


def _words(text: str) -> tuple[list[float], str]:
    """The numbers in a text, and what is left without them and without spaces."""
    text = _IGNORED.sub("", text.replace("calque.compat", "jax").replace("calque", "jax"))
    numbers = [float(n) for n in _NUMBER.findall(text)]
    return numbers, re.sub(r"[\s.]+", "", _NUMBER.sub("#", text))


def _close(a: list[float], b: list[float]) -> bool:
    """Numbers as printed agree: their last digits may differ, and what is next to nothing."""
    if len(a) != len(b):
        return False
    scale = max((abs(x) for x in b if math.isfinite(x)), default=0.0)
    return all(x == y or math.isnan(x) and math.isnan(y)
               or abs(x - y) <= 2e-3 * abs(y) + 2e-6 * scale for x, y in zip(a, b, strict=True))
