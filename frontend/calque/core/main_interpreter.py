"""Refuses a subinterpreter of Python's: the extensions that we are built on wait there for ever.

optree's and IREE's bindings ask for the lock of the main interpreter (PyGILState_Ensure), which the
thread of a subinterpreter cannot have while it holds its own.  Imported before either of them.
"""
from __future__ import annotations

import importlib
from typing import Any


def _interpreters() -> Any:
    """Python's own module for them, which 3.13 renamed."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def check() -> None:
    """Raise ImportError in a subinterpreter."""
    known = _interpreters()
    if known is not None and known.get_current() != known.get_main():
        raise ImportError(
            "calque cannot be imported in a subinterpreter of Python: extensions that it is built "
            "on (optree, IREE) would wait for the main interpreter's lock for ever.\n"
            "  In interpreter " f"{known.get_current()}.\n"
            "  Fix: use processes (multiprocessing with 'spawn'); for mod_wsgi set "
            "`WSGIApplicationGroup %{GLOBAL}`.")


check()
