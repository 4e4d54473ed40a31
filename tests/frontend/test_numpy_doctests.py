"""Every public function of lax and numpy has a docstring whose example runs."""
from __future__ import annotations

import doctest
import inspect
import types
from typing import Any

import pytest

import calque.numpy
from calque import lax

MODULES = {"lax": lax, "numpy": calque.numpy}
SECTIONS = ("Args:", "Returns:", "Raises:", "Example:")


def public(module: Any) -> dict[str, Any]:
    """The functions of a module by name, each once (aliases share their docstring)."""
    found: dict[int, tuple[str, Any]] = {}
    for name in sorted(vars(module)):
        f = getattr(module, name)
        if name.startswith("_") or not isinstance(f, types.FunctionType) or (
                f.__module__ == "calque.control"):
            continue
        found.setdefault(id(f), (name, f))
    return dict(found.values())


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    failed = []
    for name, f in public(MODULES[module]).items():
        made = doctest.DocTestParser().get_doctest(inspect.getdoc(f) or "", {}, name, None, 0)
        assert made.examples, f"{module}.{name} has no example"
        text: list[str] = []
        if runner.run(made, out=text.append).failed:
            failed.append("".join(text))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_have_all_parts(module: str) -> None:
    missing = [f"{name}: {s}" for name, f in public(MODULES[module]).items()
               for s in SECTIONS if s not in (f.__doc__ or "")]
    assert not missing


def test_signatures_do_not_leak_helpers() -> None:
    for module in MODULES.values():
        for name, f in public(module).items():
            assert f.__name__.lstrip("_") == f.__name__, name
