"""A lecture's cells run under one library, and the jitted functions that they called."""
from __future__ import annotations

import contextlib
import functools
import math
import os
import pathlib
import re
import signal
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

SIGNATURES = 2  # of a function that are kept: the first ones
_CELL = re.compile(r"^```+\{code-cell\}.*?\n(.*?)^```+\s*$", re.M | re.S)
_MAGIC = re.compile(r"^(\s*)(%%?time(?:it)?(?:\s+-\w+\s*\d*)*)(\s|$)")


def cells(page: pathlib.Path) -> list[str]:
    """The code of a page, without what is IPython's own."""
    found = []
    for block in _CELL.findall(page.read_text("utf-8")):
        head, body = re.match(r"((?:---\n.*?^---\n)|(?:^:.*?\n)*)(.*)", block, re.S | re.M).groups()
        if "skip-execution" not in head:
            lines = [_MAGIC.sub(r"\1", line) for line in body.splitlines()]
            found.append("\n".join(x for x in lines if not x.lstrip().startswith(("!", "%"))))
    return found


class Recorder:
    """Stands for `jit` while cells run: keeps what jitted functions of theirs were called with."""

    def __init__(self, jax: Any, scope: dict[str, Any]) -> None:
        self.jax, self.scope, self.original = jax, scope, jax.jit
        self.depth = 0
        self.names: Counter[str] = Counter()
        self.calls: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], bool]] = {}
        jax.jit = self.jit

    def jit(self, fun: Any = None, /, **options: Any) -> Any:
        if fun is None:
            return lambda f: self.jit(f, **options)
        if not self.of_cells(fun):
            return self.original(fun, **options)
        return Recorded(self, fun, options)

    def of_cells(self, fun: Any) -> bool:
        while fun is not None:
            if getattr(fun, "__globals__", None) is self.scope:
                return True
            fun = getattr(fun, "__wrapped__", None) or getattr(fun, "func", None)
        return False

    def name(self, fun: Any) -> str:
        while isinstance(fun, functools.partial):
            fun = fun.func
        name = getattr(fun, "__qualname__", type(fun).__name__).replace("<locals>.", "")
        self.names[name] += 1
        return name if self.names[name] == 1 else f"{name} ({self.names[name]})"

    def again(self, label: str) -> Any:
        """A recorded call, made once more."""
        jitted, args, kwargs, donates = self.calls[label]
        if donates:
            args, kwargs = self.jax.tree.map(lambda x: fresh(self.jax, x), (args, kwargs))
        return self.jax.block_until_ready(jitted(*args, **kwargs))

    def sort(self, x: Any) -> str:
        """What tells two calls apart: shapes and dtypes, and values that may be static."""
        if isinstance(x, (self.jax.Array, np.ndarray, np.generic)):
            return f"{x.dtype}{list(x.shape)}"
        return repr(x) if isinstance(x, (int, str, type(None))) else type(x).__name__


class Recorded:
    """A jitted function that notes its calls from outside of traces."""

    def __init__(self, recorder: Recorder, fun: Any, options: dict[str, Any]) -> None:
        @functools.wraps(fun)
        def counted(*args: Any, **kwargs: Any) -> Any:
            recorder.depth += 1
            try:
                return fun(*args, **kwargs)
            finally:
                recorder.depth -= 1
        functools.update_wrapper(self, fun)
        self._recorder, self._name = recorder, recorder.name(fun)
        self._kept: set[tuple[str, ...]] = set()
        self._donates = any(k.startswith("donate") and v for k, v in options.items())
        self._jitted = recorder.original(counted, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._recorder.depth and len(self._kept) < SIGNATURES:
            self._note(args, kwargs)
        return self._jitted(*args, **kwargs)

    def _note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        jax = self._recorder.jax
        leaves, tree = jax.tree.flatten((args, kwargs))
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return
        key = (str(tree), *map(self._recorder.sort, leaves))
        if key not in self._kept:
            self._kept.add(key)
            label = self._name + (f" /{len(self._kept)}" if len(self._kept) > 1 else "")
            kept = jax.tree.map(lambda x: fresh(jax, x), (args, kwargs)) if self._donates else (
                args, kwargs)
            self._recorder.calls[label] = (self._jitted, *kept, self._donates)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)


def fresh(jax: Any, x: Any) -> Any:
    """A copy of an array: what a later call gives away or changes."""
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, jax.Array) and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        return x.copy()
    return x


def numbers(jax: Any, made: Any) -> list[Any]:
    """A result's leaves as arrays."""
    found = []
    for x in jax.tree.leaves(made):
        if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            x = jax.random.key_data(x)
        with contextlib.suppress(Exception):
            x = np.asarray(x)
            if x.dtype != object:
                found.append(x)
    return found


class Stopped(BaseException):
    """A cell took too long."""


def ran(page: pathlib.Path, scope: dict[str, Any], patience: float) -> list[tuple[float, str]]:
    """Each cell's seconds, and what went wrong."""
    import matplotlib.pyplot as plt

    def stop(*_: Any) -> None:
        raise Stopped
    signal.signal(signal.SIGALRM, stop)
    found = []
    for i, text in enumerate(cells(page)):
        start, said = time.perf_counter(), ""
        imports = re.search(r"^(?:import|from) ", text, re.M)  # (some take long themselves)
        signal.setitimer(signal.ITIMER_REAL, 60 + patience if imports else patience)
        try:
            exec(compile(text, f"<{page.stem} {i}>", "exec"), scope)
        except Stopped:
            said = "stopped"
        except Exception as problem:
            said = f"{type(problem).__name__}: {str(problem)[:200]}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        plt.close("all")
        found.append((time.perf_counter() - start, said))
    return found


def serve(library: str, page: pathlib.Path, patience: float, pipe: Any) -> None:
    """Runs the page, then answers ("calls", label, seconds) and ("result", label)."""
    os.environ.update(MPLBACKEND="Agg", JAX_PLATFORMS="cpu")
    quiet = open(os.devnull, "w")  # noqa: SIM115 (for the process's life)
    if not os.environ.get("LECTURES_LOUD"):
        os.dup2(quiet.fileno(), 1)
        os.dup2(quiet.fileno(), 2)
        sys.stdout = sys.stderr = quiet
    if library == "calque":
        import calque.compat
        calque.compat.install()
    import jax
    scope: dict[str, Any] = {"__name__": "lecture", "display": print}
    recorder = Recorder(jax, scope)
    pipe.send((ran(page, scope, patience), list(recorder.calls)))
    while True:
        try:
            task, label, *rest = pipe.recv()
        except EOFError:
            return
        try:
            if task == "result":
                pipe.send(numbers(jax, recorder.again(label)))
            elif task == "plan":
                jitted, args, kwargs, _ = recorder.calls[label]
                pipe.send(str(jitted.lower(*args, **kwargs).plan()))
            else:
                best, start = math.inf, time.perf_counter()
                while math.isinf(best) or time.perf_counter() - start < rest[0]:
                    begun = time.perf_counter()
                    recorder.again(label)
                    best = min(best, time.perf_counter() - begun)
                pipe.send(best)
        except Exception as problem:
            pipe.send(f"{type(problem).__name__}: {str(problem)[:300]}")
