"""start_trace, stop_trace, trace: one recording at a time, and what of it is written where.

Start reading at `start_trace`.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

from calque.core import monitoring
from calque.core.errors import explain
from calque.profiler import calls, children
from calque.profiler.perfetto import trace_of
from calque.profiler.recorder import MOST_SLICES, Recorder
from calque.profiler.xplane import HOST, space_of
from calque.runtime import watch

SUFFIX = ".perfetto-trace"
_LEVELS: dict[int, frozenset[str] | None] = {
    0: frozenset(), 1: frozenset({"annotation", "python"}), 2: None, 3: None}
_IGNORED = {"enable_hlo_proto": True, "include_dataset_ops": True,
            "raise_error_on_start_failure": False, "advanced_configuration": {}}


class ProfileOptions:
    """What a trace records, under JAX's names.

    Attributes:
      host_tracer_level: 0: runs on devices only; 1: annotations as well; 2 (the default) and 3:
        everything that calque tells.
      python_tracer_level: 1: also every call of a Python function outside calque, which slows
        Python down several times; 0 (the default; JAX's is 1): none.
      session_id: name of the file; '': made of the time and the process's number.
      enable_hlo_proto, include_dataset_ops, raise_error_on_start_failure, advanced_configuration:
        accepted; there is nothing that they could leave out, an error at the start is always
        raised, and the last one's keys are of TPUs and of XLA's GPUs.

    Raises:
      NotImplementedError: an option of JAX's that has no meaning here is set (duration_ms,
        start_timestamp_ns, repository_path, device_tracer_level).
      AttributeError: there is no such option.
      ValueError: a level is none of those.

    Example:
      >>> from calque import profiler
      >>> options = profiler.ProfileOptions()
      >>> options.host_tracer_level = 1
      >>> options.python_tracer_level
      0
    """

    host_tracer_level: int
    python_tracer_level: int
    session_id: str

    _DEFAULTS = {"host_tracer_level": 2, "python_tracer_level": 0, "session_id": "",
                 "duration_ms": 0, "start_timestamp_ns": 0, "repository_path": "",
                 "device_tracer_level": 1, **_IGNORED}

    def __init__(self) -> None:
        self.__dict__.update(self._DEFAULTS)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            raise AttributeError(explain(f"ProfileOptions has no option {name!r}.",
                                         fix=f"one of {', '.join(self._DEFAULTS)}."))
        allowed = {"host_tracer_level": (0, 1, 2, 3), "python_tracer_level": (0, 1)}.get(name)
        if allowed is not None and value not in allowed:
            raise ValueError(explain(f"ProfileOptions.{name} is one of {allowed}, got {value!r}."))
        if name == "session_id":
            if not isinstance(value, str) or pathlib.Path(value).name != value:
                raise ValueError(explain(
                    f"ProfileOptions.session_id is the name of a file, got {value!r}.",
                    fix="give a name without folders; the folder is log_dir."))
        elif allowed is None and name not in _IGNORED and value != self._DEFAULTS[name]:
            raise NotImplementedError(explain(f"ProfileOptions.{name} has no meaning here.",
                                              fix="leave it as it is."))
        self.__dict__[name] = value


class _Session:
    """A trace that is on."""

    def __init__(self, folder: pathlib.Path, options: ProfileOptions, host: str) -> None:
        self.folder, self.options, self.host = folder, options, host
        self.others: list[tuple[int, int]] = []  # processes that record with this one
        handle, name = tempfile.mkstemp(prefix="part-", dir=folder)  # it can be written: we know
        os.close(handle)
        self.part = pathlib.Path(name)
        self.recorder = Recorder()

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)  # (somebody may have removed it)
        path = self.path()
        level = _LEVELS[self.options.host_tracer_level]
        traces, spaces = children.end(self.others)
        try:
            self.part.write_bytes(trace_of(self.recorder, level) + traces)
            self.part.chmod(0o666 & ~_umask())
            os.replace(self.part, path)
        except BaseException:
            self.part.unlink(missing_ok=True)
            raise
        run = self.folder / "plugins" / "profile" / path.name.removesuffix(SUFFIX)
        run.mkdir(parents=True, exist_ok=True)
        (run / f"{socket.gethostname() or 'host'}.xplane.pb").write_bytes(
            space_of(self.recorder, level, self.host) + spaces)
        if self.recorder.dropped:
            warnings.warn(f"calque.profiler: {self.recorder.dropped} slices after the first "
                          f"{MOST_SLICES} are not in {path}.\n  Fix: trace for a shorter time.",
                          RuntimeWarning, stacklevel=3)

    def path(self) -> pathlib.Path:
        """A name that no file has."""
        name = self.options.session_id or f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
        for i in range(1 << 30):
            path = self.folder / f"{name}{f'-{i + 1}' if i else ''}{SUFFIX}"
            if not path.exists():
                return path
        raise AssertionError


def _umask() -> int:
    """The process's, which can only be read by setting it."""
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


_lock = threading.Lock()
_session: _Session | None = None


def start_trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
                create_perfetto_trace: bool = False,
                profiler_options: ProfileOptions | None = None) -> None:
    """Record what calque does in all threads, until `stop_trace`; and in the processes that
    `register_subprocess` named.

    Args:
      log_dir: folder for the trace, which is made if it is not there.
      create_perfetto_link: not here; the file is opened at ui.perfetto.dev by hand.
      create_perfetto_trace: accepted; the trace is always a file of Perfetto's.
      profiler_options: what to record.

    Returns:
      None.

    Raises:
      RuntimeError: a trace is on; Python calls are asked for and another profiler is at work.
      OSError: the folder cannot be made, or not be written into.
      NotImplementedError: create_perfetto_link.
      TypeError: log_dir is no path, or profiler_options no ProfileOptions.

    Example:
      >>> import os, tempfile, calque, calque.numpy as jnp
      >>> folder = tempfile.mkdtemp()
      >>> calque.profiler.start_trace(folder)
      >>> y = calque.jit(lambda x: x * 2)(jnp.ones(3)).block_until_ready()
      >>> calque.profiler.stop_trace()
      >>> sorted(name.rpartition(".")[2] for name in os.listdir(folder))
      ['perfetto-trace', 'plugins']
    """
    options = ProfileOptions() if profiler_options is None else profiler_options
    if not isinstance(options, ProfileOptions):
        raise TypeError(explain(
            f"profiler_options must be a ProfileOptions, got {type(options).__name__}.",
            fix="options = calque.profiler.ProfileOptions(); options.host_tracer_level = 1."))
    if create_perfetto_link:
        raise NotImplementedError(explain(
            "create_perfetto_link: no link is made and no server started here.",
            fix="open the file that stop_trace writes into log_dir at ui.perfetto.dev."))
    begin(pathlib.Path(os.fspath(log_dir)), options)


def begin(folder: pathlib.Path, options: ProfileOptions, host: str = HOST) -> None:
    """Begin a trace here and in the processes that are registered; host: this one's name in it."""
    global _session
    with _lock:
        if _session is not None:
            raise RuntimeError(explain(
                "Profile has already been started. Only one profile may be run at a time: it goes "
                f"to {_session.folder}.", fix="call stop_trace() first."))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            session = _Session(folder, options, host)
        except OSError as error:
            raise type(error)(error.errno, explain(
                f"the trace cannot be written into {folder}: {error.strerror}.",
                fix="give start_trace a folder that can be written.")) from error
        try:
            if options.python_tracer_level:
                calls.start(session.recorder)
        except RuntimeError:
            session.part.unlink()
            raise
        session.recorder.start()
        _session = session
    # (without the lock: one of them may ask this process)
    session.others = children.begin(options.host_tracer_level)


def stop_trace() -> None:
    """End the trace and write it into its folder: for Perfetto, and for TensorBoard
    (plugins/profile/NAME/HOST.xplane.pb).

    What is under way is cut off: wait for results first (`block_until_ready`).

    Returns:
      None.

    Raises:
      RuntimeError: no trace is on.
      OSError: the file cannot be written; the trace is over all the same.

    Example:
      >>> from calque import profiler
      >>> profiler.stop_trace()
      Traceback (most recent call last):
      RuntimeError: No profile started.
        Fix: call start_trace(log_dir) first.
    """
    session = _ended()
    if session is None:
        raise RuntimeError(explain("No profile started.",
                                   fix="call start_trace(log_dir) first."))
    session.write()


def _ended() -> _Session | None:
    """The session, which records no more."""
    global _session
    with _lock:
        session, _session = _session, None
        if session is not None:
            calls.stop()
            session.recorder.stop()
    return session


@contextlib.contextmanager
def trace(log_dir: os.PathLike[str] | str, create_perfetto_link: bool = False,
          create_perfetto_trace: bool = False,
          profiler_options: ProfileOptions | None = None) -> Iterator[None]:
    """Context in which a trace is on; it is written when the block ends, also by an exception.

    Args:
      log_dir: folder for the trace, which is made if it is not there.
      create_perfetto_link: not here; the file is opened at ui.perfetto.dev by hand.
      create_perfetto_trace: accepted; the trace is always a file of Perfetto's.
      profiler_options: what to record.

    Returns:
      A context manager.

    Raises:
      RuntimeError, OSError, NotImplementedError, TypeError: as start_trace and stop_trace.

    Example:
      >>> import tempfile, calque, calque.numpy as jnp
      >>> with calque.profiler.trace(tempfile.mkdtemp()):
      ...     y = calque.jit(lambda x: x * 2)(jnp.ones(3)).block_until_ready()
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


@atexit.register
def _drop() -> None:
    """A trace that nobody stopped leaves nothing behind."""
    session = _ended()
    if session is not None:
        session.part.unlink(missing_ok=True)
        children.end(session.others, warn=False)
        print(f"calque.profiler: the trace into {session.folder} was not stopped and is not "
              "written.\n  Fix: call stop_trace(), or use the context manager trace().",
              file=sys.stderr)


def _after_fork_in_child() -> None:
    """A trace is its process's: the child has not the thread that observes."""
    global _session, _lock
    _session, _lock = None, threading.Lock()
    calls.stop()
    monitoring.watchers.clear()
    watch.watchers.clear()


if hasattr(os, "register_at_fork"):  # (not on Windows)
    os.register_at_fork(after_in_child=_after_fork_in_child)
