"""The disk cache of compiled programs, on by default.

`compile_cached` is `compile_module` with a memory.  The key covers everything that decides the
bytes: the module, every flag, the compiler's version, linked objects, and calque's own lowering.
Processes that want one program compile it once.  Entries are written to a temporary file and
renamed, and carry a checksum: concurrent processes,
kills and damaged files cost a compile, never a wrong program.  Entries are taken from folders and
files alone that are this user's own (folders.py).  A cache that cannot be written is silently slow
(one warning).  CALQUE_CACHE=0 switches it off; CALQUE_CACHE_DIR, CALQUE_CACHE_SIZE.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calque.core import monitoring
from calque.core.config import config
from calque.lowering.compiler.compile import (
    all_flags,
    compile_module,
    compiler_version,
)
from calque.lowering.compiler.compile import (
    expect as expect_compile,
)
from calque.lowering.compiler.folders import cache_directory, open_lock, own_directory, read_own
from calque.lowering.driver import progress
from calque.lowering.target.targets import Target

_MAGIC = b"CALQUE01"
_HEADER = len(_MAGIC) + 32
_SUFFIX = ".vmfb"
_DEFAULT_SIZE = 2 << 30
_PRUNE_EVERY = 64  # writes of this process between two looks at the folder's size
_STALE_S = 3600.0  # a temporary file this old belongs to a process that was killed
_LOCK = ".lock"
_LONGEST_WAIT_S = 120.0  # for another process that compiles the same
_OBJECT = re.compile(rb'path = "([^"]+)"')

_state = {"writes": 0, "hits": 0, "misses": 0, "warned": 0, "asked": 0, "expected": 0}


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds, and how it served this process."""

    directory: str
    enabled: bool
    entries: int
    bytes: int
    limit: int
    hits: int
    misses: int


def compile_cached(source: bytes | str, target: Target, options: tuple[str, ...] = (), *,
                   reason: str = "", name: str = "") -> bytes:
    """`compile_module(source, target, options)`, from the disk where it was compiled before.

    `reason` says why a program is compiled, CALQUE_LOG=compile prints it; `name` is the program's,
    for listeners and profiles.
    """
    module = source.encode() if isinstance(source, str) else source
    name = name or "program"
    with monitoring.span(f"compile {name}", "compile", monitoring.COMPILE,
                         fun_name=f"jit({name})"):
        return _cached(module, target, options, reason)


def _cached(module: bytes, target: Target, options: tuple[str, ...], reason: str) -> bytes:
    start = time.perf_counter()
    folder = _folder()
    path = None if folder is None else folder / _file_name(module, target, options)
    program = None if path is None else _read(path)
    hit = program is not None
    if path is not None:
        _tell_listeners(time.perf_counter() - start if hit else None)
    if program is None:
        with _alone(path) as waited:
            program = _read(path) if waited and path is not None else None
            hit = program is not None
            if program is None:
                with progress.announced(reason.partition(": ")[0]):
                    program = compile_module(module, target, options)
                if path is not None:
                    _write(path, program)
    _state["hits" if hit else "misses"] += 1
    if "compile" in os.environ.get("CALQUE_LOG", ""):
        _log(hit, reason, (time.perf_counter() - start) * 1e3, target, len(program))
    return program


def expect(target: Target) -> None:
    """A program is lowered for a target: if it is the first, and nothing is kept that it could be,
    the compiler's process loads meanwhile (a third of a cold first call)."""
    if not _state["expected"]:
        _state["expected"] = 1
        folder = _folder()
        if folder is None or not _holds_any(folder):
            expect_compile(target)


def _holds_any(folder: Path) -> bool:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return any(e.name.endswith(_SUFFIX) for e in entries)
    return False


def _tell_listeners(retrieval_s: float | None) -> None:
    """The events of JAX's cache; retrieval_s: None where the program was not there."""
    if not _state["asked"]:
        _state["asked"] = 1
        monitoring.send("event", monitoring.CACHE_TASKS)
    monitoring.send("event", monitoring.CACHE_REQUESTS)
    if retrieval_s is None:
        monitoring.send("event", monitoring.CACHE_MISSES)
    else:
        monitoring.send("event", monitoring.CACHE_HITS)
        monitoring.send("duration", monitoring.CACHE_RETRIEVAL, retrieval_s)


def stored(name: str, target: Target) -> bytes | None:
    """What `store` kept under a name for a target, by this version of calque and the compiler."""
    folder = _folder()
    return None if folder is None else _read(folder / _file_name(name.encode(), target, ()))


def store(name: str, target: Target, program: bytes) -> None:
    """Keep a program under a name, until calque, the compiler or the flags change."""
    folder = _folder()
    if folder is not None:
        _write(folder / _file_name(name.encode(), target, ()), program)


def _folder() -> Path | None:
    """Where entries are read and written; None where they are not to be, or cannot be trusted."""
    return None if _disabled() else own_directory(cache_directory())


def cache_info() -> CacheInfo:
    """Size, place and service of the cache."""
    files = _entries()
    return CacheInfo(str(cache_directory()), not _disabled(), len(files),
                     sum(size for _, size, _ in files), _limit(), _state["hits"],
                     _state["misses"])


def clear_disk_cache() -> int:
    """Delete every entry; the number deleted."""
    entries = _entries()
    for path, _, _ in entries:
        _unlink(path)
    return len(entries)


# ---- keys

def cache_key(module: bytes, target: Target, options: tuple[str, ...] = ()) -> str:
    """The key of a compile: sha256 of everything that decides its bytes."""
    digest = hashlib.sha256()
    parts = [_MAGIC, compiler_version().encode(), lowering_version().encode()]
    parts += [flag.encode() for flag in all_flags(target, options)]
    parts += _linked_objects(module)
    parts.append(module)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@functools.cache
def lowering_version() -> str:
    """Content hash of the lowering package's sources (read once, 1-2 ms)."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent.parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".mlir", ".c", ".h", ".o", ".bc") and path.is_file():
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _linked_objects(module: bytes) -> list[bytes]:
    """Contents of the object files that the module names (`hal.executable.objects`)."""
    if b"hal.executable.object" not in module:
        return []
    hashes = []
    for name in sorted(set(_OBJECT.findall(module))):
        try:
            hashes.append(hashlib.sha256(Path(os.fsdecode(name)).read_bytes()).digest())
        except OSError:
            hashes.append(name)
    return hashes


def _file_name(module: bytes, target: Target, options: tuple[str, ...]) -> str:
    return cache_key(module, target, options) + _SUFFIX


# ---- files

def _read(path: Path) -> bytes | None:
    """The program in an entry, or None; a damaged entry is deleted."""
    try:
        data = read_own(path) or b""  # (what is not ours goes as what is damaged)
    except OSError:
        return None
    body = data[_HEADER:]
    if data[:len(_MAGIC)] == _MAGIC and hashlib.sha256(body).digest() == data[len(_MAGIC):_HEADER]:
        try:
            os.utime(path)  # the least recently used entry goes first when space is short
        except OSError:
            pass
        return body
    _unlink(path)
    return None


@contextlib.contextmanager
def _alone(path: Path | None) -> Iterator[bool]:
    """A block in which no other process of this host compiles the same: gives whether it had to
    wait.  A lock ends with its process, and one that is stopped is not waited for for long."""
    try:
        import fcntl
        lock = None if path is None else path.with_suffix(_LOCK)
        file = None if lock is None else open_lock(lock)
    except (ImportError, OSError):  # (Windows; no folder yet)
        file = None
    if file is None or lock is None:
        yield False
        return
    waited, mine, end = False, False, time.monotonic() + _LONGEST_WAIT_S
    while not mine and time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except OSError:
            waited = True
            time.sleep(0.01)
    try:
        yield waited
    finally:
        if mine:
            _unlink(lock)
        os.close(file)


def _write(path: Path, program: bytes) -> None:
    part = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix="part-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(program).digest())
            file.write(program)
        os.replace(part, path)
    except OSError as error:
        if part is not None:
            _unlink(Path(part))
        _warn(f"calque cannot write its compile cache ({error}); programs are compiled again in "
              "every process.\n  Fix: set CALQUE_CACHE_DIR to a writable folder with free space, "
              "or CALQUE_CACHE=0 to do without.")
        return
    _state["writes"] += 1
    if _state["writes"] % _PRUNE_EVERY == 1:
        _prune()


def _prune() -> None:
    """Delete leftovers of killed processes and, above the limit, the least recently used."""
    now = time.time()
    try:
        left = [*cache_directory().glob("part-*"), *cache_directory().glob(f"*{_LOCK}")]
        for part in left:
            if now - part.stat().st_mtime > _STALE_S:
                _unlink(part)
    except OSError:
        pass
    entries = sorted(_entries(), key=lambda entry: entry[2])
    total = sum(size for _, size, _ in entries)
    limit = _limit()
    if total <= limit:
        return
    for path, size, _ in entries:
        _unlink(path)
        total -= size
        if total <= 0.8 * limit:  # some slack, so that the next write does not prune again
            return


def _entries() -> list[tuple[Path, int, float]]:
    found = []
    try:
        with os.scandir(cache_directory()) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX):
                    with contextlib.suppress(OSError):  # another process dropped it
                        status = entry.stat()
                        found.append((Path(entry.path), status.st_size, status.st_mtime))
    except OSError:
        pass
    return found


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


# ---- settings and talk

def _disabled() -> bool:
    return not config.jax_enable_compilation_cache or os.environ.get(
        "CALQUE_CACHE", "1").lower() in ("0", "off", "false", "no")


def _limit() -> int:
    text = os.environ.get("CALQUE_CACHE_SIZE", "")
    try:
        return parse_size(text) if text else _DEFAULT_SIZE
    except ValueError:
        _warn(f"CALQUE_CACHE_SIZE={text!r} is not a size.\n  Fix: write 500M, 2G or a number.")
        return _DEFAULT_SIZE


def parse_size(text: str) -> int:
    """Bytes of '2G', '500M', '64K' or a plain number."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    cleaned = text.strip().upper().removesuffix("B").removesuffix("I")
    if cleaned and cleaned[-1] in units:
        return int(float(cleaned[:-1]) * units[cleaned[-1]])
    return int(cleaned)


def _warn(message: str) -> None:
    if not _state["warned"]:
        _state["warned"] = 1
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def _log(hit: bool, reason: str, milliseconds: float, target: Target, size: int) -> None:
    what = "disk hit" if hit else "compiled"
    print(f"calque: {what} in {milliseconds:.1f} ms for {target.name} ({size} bytes)"
          + (f": {reason}" if reason else ""), file=sys.stderr)
