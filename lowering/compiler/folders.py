"""Where what outlives the process lies, whom it must belong to, and what goes with the process.

What is compiled is machine code, run as it is found.  So it is taken from folders and files alone
that are this user's own and that nobody else can write (root aside): in `<tmp>`, or where a
variable points to, anybody may have laid out a folder.  Start reading at `own_directory`.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from calque.core.config import config

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # (a pipe: not to wait for who writes)
_said: set[str] = set()
_made: dict[Path, tuple[int, int]] = {}  # temporary folders -> (the process, what locks them)


def cache_directory() -> Path:
    """Where entries live: $CALQUE_CACHE_DIR, jax_compilation_cache_dir, else `home_directory`."""
    given = config.jax_compilation_cache_dir
    named = os.environ.get("CALQUE_CACHE_DIR")
    if given and not named and "://" not in str(given):
        named = os.path.join(given, "calque")  # (JAX's entries may lie beside it)
    return Path(named).expanduser() if named else home_directory()


def home_directory() -> Path:
    """~/.cache/calque; without a home folder one of this user's in the temporary folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "calque"
    except RuntimeError:  # no home directory
        return Path(tempfile.gettempdir()) / f"calque-{_user()}"


def own_directory(path: Path) -> Path | None:
    """The folder, made where there was none; None, said once, where others could write into it.

    Where it can be neither made nor read it is given all the same: what is tried there tells why.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(path)
        if path == home_directory() and _mine(status) and stat.S_ISDIR(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)  # (made with umask 002 before)
            status = os.lstat(path)
    except OSError:
        return path if not path.is_symlink() else None
    why = ("it is no folder (symbolic links are not followed)" if not stat.S_ISDIR(status.st_mode)
           else f"it belongs to user {status.st_uid}" if not _mine(status)
           else "others can write into it" if status.st_mode & _OTHERS else "")
    if not why:
        return path
    if str(path) not in _said:
        _said.add(str(path))
        warnings.warn(
            f"calque keeps no compiled programs in {path}: {why}, and what lies there is run.\n"
            "  Fix: set CALQUE_CACHE_DIR to a folder of your own that nobody else can write "
            "(chmod 700), or CALQUE_CACHE=0 to do without.", RuntimeWarning, stacklevel=2)
    return None


def is_own_file(path: Path) -> bool:
    """Whether there is a file of this user's that nobody else can write, and no link to one."""
    try:
        return _own(os.lstat(path))
    except OSError:
        return False


def read_own(path: Path) -> bytes | None:
    """The bytes of a file of this user's that nobody else can write; None of any other.

    Raises:
      OSError: it is not there, or cannot be read.
    """
    with open(os.open(path, os.O_RDONLY | _NOFOLLOW | _AT_ONCE), "rb") as file:
        return file.read() if _own(os.fstat(file.fileno())) else None


def open_lock(path: Path) -> int:
    """A descriptor of a file to lock, made where it is missing; OSError where it is a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o600)


def _own(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and _mine(status) and not status.st_mode & _OTHERS


def _mine(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


# ---- what goes with the process

_PREFIX = "calque-process-"
LEAST_SPACE = 1 << 20  # bytes, that what lies there for a while may need


def passing_place() -> Path:
    """Where folders lie that go with their process: in TMPDIR where that is set, else beside the
    cache's entries, where nobody else can write; in the system's place where that is no folder of
    ours to write into, or is full."""
    if not any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")):
        above = own_directory(cache_directory())
        if above is not None and os.access(above, os.W_OK) and free_space(above) >= LEAST_SPACE:
            return above
    return Path(tempfile.gettempdir())


def free_space(folder: str | Path) -> int:
    """The bytes that are free where a folder lies; enough where nobody can tell."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return LEAST_SPACE


def temporary(within: Path | None = None) -> Path:
    """A new folder of this process's, which is gone when that ends; within another folder of ours
    or `passing_place`.

    The process keeps it locked as long as it lives.  What those that were killed left behind the
    next one finds unlocked, and removes.
    """
    within = passing_place() if within is None else within
    sweep(within)
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
        try:
            lock = _locked(path, wait=True)
        except FileNotFoundError:  # another process swept it before it was opened here
            continue
        if lock is None:  # (no such locks here)
            _made[path] = (os.getpid(), -1)
            return path
        if os.fstat(lock).st_nlink:
            _made[path] = (os.getpid(), lock)
            return path
        os.close(lock)  # or before it was locked


def remove(path: Path) -> None:
    """Remove a folder that `temporary` gave."""
    _, lock = _made.pop(path, (0, -1))
    shutil.rmtree(path, ignore_errors=True)
    if lock >= 0:
        os.close(lock)


@contextlib.contextmanager
def passing(within: Path | None = None) -> Iterator[Path]:
    """Such a folder for as long as a `with` block runs."""
    path = temporary(within)
    try:
        yield path
    finally:
        remove(path)


def sweep(within: Path) -> None:
    """Remove the folders of processes that are no more."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(within):
            if not entry.name.startswith(_PREFIX):
                continue
            with contextlib.suppress(OSError):
                path, status = Path(entry.path), entry.stat(follow_symlinks=False)
                if path in _made or not _mine(status) or not stat.S_ISDIR(status.st_mode):
                    continue
                lock = _locked(path, wait=False)
                if lock is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(lock)


def _locked(path: Path, wait: bool) -> int | None:
    """A descriptor that locks a folder; None where another process has locked it."""
    try:
        import fcntl
    except ImportError:  # (Windows)
        return None
    file = os.open(path, os.O_RDONLY | _NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(file)
        return None
    return file


@atexit.register
def _end() -> None:
    for path, (process, _) in list(_made.items()):
        if process == os.getpid():  # (and not one that this one was forked from)
            remove(path)
