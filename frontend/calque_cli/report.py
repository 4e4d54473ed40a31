"""How commands end: one sentence and exit code 2 for what was given wrongly, the user's frames and
exit code 1 for an exception in the user's function; progress for work over a second.

CALQUE_TRACEBACK=full shows every frame.  Start reading at `reported`.
"""
from __future__ import annotations

import contextlib
import functools
import os
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import typer

PROGRESS_AFTER_S = 1.0


class UsageError(Exception):
    """The command was given wrongly: a sentence, and how to mend it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}\n  Fix: {fix}")


class RunError(Exception):
    """The program was run and failed."""


class UserCodeError(Exception):
    """The user's file raised; __cause__ is what it raised, `file` is where its frames begin."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose exceptions become messages on stderr and exit codes."""
    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except BrokenPipeError:  # `calque dump ... | head`: typer ends quietly
            raise
        except UserCodeError as error:
            _end(_user_traceback(error.__cause__ or error, error.file), 1)
        except Exception as error:
            wrongly, failed = _classes()
            if isinstance(error, (*wrongly, *failed)):
                _end(f"calque: {error}", 2 if isinstance(error, wrongly) else 1)
            if not isinstance(error, OSError):
                raise
            _end(f"calque: {error.strerror or error}: {error.filename}\n"
                 "  Fix: check the path, the permissions and the space that is left.", 2)
    return run


def _classes() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """What was given wrongly, and what failed: read when something did, since calque loads a
    second, and `calque --help` does without."""
    from calque.aot.artifacts import ArgumentError
    from calque.aot.buckets import BucketError
    from calque.aot.specs import SpecError
    from calque.lowering.compiler.compile import CompileError
    from calque.lowering.emit.mlir import NoCompilerError
    from calque.lowering.target.targets import TargetError
    from calque.models import CacheFull, MissingPackage, ModelError
    from calque.runtime import ArtifactError
    return (UsageError, ArgumentError, ArtifactError, BucketError, MissingPackage, ModelError,
            SpecError, TargetError), (CacheFull, CompileError, NoCompilerError, RunError)


def _end(message: str, code: int) -> None:
    if os.environ.get("CALQUE_TRACEBACK") == "full":
        traceback.print_exc()
    else:
        typer.echo(message, err=True)
    raise typer.Exit(code)


def _user_traceback(error: BaseException, file: str) -> str:
    """The traceback from the user's file on, without calque's own frames."""
    from calque.core.source import is_ours
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, f in enumerate(frames) if f.filename == file), len(frames))
    shown = [f for f in frames[first:] if not is_ours(f.filename)]
    lines = traceback.format_exception_only(error)
    if shown:
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown), *lines]
    return "".join(lines).rstrip()


@contextlib.contextmanager
def progress(what: str, total: int = 1, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, shown when the block takes over a second; yields advance(what is done next).

    Where stderr is no terminal nothing is shown, or, with `lines`, a line for each part.
    """
    if not sys.stderr.isatty():
        with _lines(what, total) if lines else contextlib.nullcontext(lambda _: None) as told:
            yield told
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    if total > 1:
        columns[2:2] = [BarColumn(), MofNCompleteColumn()]
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)
    timer = threading.Timer(PROGRESS_AFTER_S, bar.start)
    timer.daemon = True
    timer.start()
    done = [-1]

    def advance(text: str) -> None:
        done[0] += 1
        bar.update(task, description=text, completed=done[0])
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextlib.contextmanager
def _lines(what: str, total: int) -> Iterator[Callable[[str], None]]:
    start, done = time.perf_counter(), [-1]

    def advance(text: str) -> None:
        done[0] += 1
        taken = f", {time.perf_counter() - start:.0f} s so far" if done[0] else ""
        print(f"calque: {what}, {done[0]} of {total - 1} done{taken}: {text}", file=sys.stderr,
              flush=True)
    yield advance
    print(f"calque: {what}, {time.perf_counter() - start:.0f} s in all", file=sys.stderr,
          flush=True)


def wrapped(text: str, indent: int = 2, width: int = 80) -> str:
    """A line as lines of at most `width` columns; those that follow are indented."""
    return "\n".join(textwrap.wrap(text, width, subsequent_indent=" " * indent,
                                   break_long_words=False, break_on_hyphens=False,
                                   drop_whitespace=True)) or text


def size_text(count: int) -> str:
    """Bytes for people: 812 B, 9.6 KiB, 1.2 MiB."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
