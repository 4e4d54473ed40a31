"""Checkpoints: trees of arrays in a folder, written and read by all processes together.

Each leaf is a zarr3 array (tensorstore) whose chunks are the parts that devices have, each written
once, by the process that has its first copy; so any mesh, in any number of processes, reads what
any other wrote.  `index.json` says what there is and which data folder holds it.  It is replaced
at the end, by one rename: a folder has a whole checkpoint, the one before, or none.  (The name
calque.checkpoint is JAX's, for what is computed again; it has `save` and `load` as attributes.)
Start reading at `save`.
"""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calque import distributed
from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, is_arraylike
from calque.core.config import config
from calque.core.errors import explain
from calque.core.sharding import NamedSharding
from calque.core.types import Ndarray, Shape
from calque.dispatch.array import Array, from_numpy, to_array
from calque.dispatch.sharded.shards import device_put, make_array_from_callback
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.trees import util as tree_util

__all__ = ["Save", "load", "save"]

_VERSION = 1
_INDEX = "index.json"
_LONGEST = 400  # bytes of an error that other processes are told


def _tensorstore() -> Any:
    try:
        import tensorstore
    except ImportError:
        raise RuntimeError(explain(
            "checkpoints take tensorstore, which is not installed.",
            fix="pip install 'calque[checkpoint]' (tensorstore).")) from None
    return tensorstore


# ---- what is written
@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf as it lies in the folder: `dtype` is the array's, `stored` that of its numbers there;
    keys have their words along one more axis."""

    path: str
    shape: Shape
    dtype: str
    stored: str
    words: int  # of a key; 0: no key

    @property
    def sizes(self) -> Shape:
        return (*self.shape, self.words) if self.words else self.shape


def _leaf(path: str, aval: ShapedArray) -> _Leaf:
    if dtypes.is_key(aval.dtype):
        return _Leaf(path, aval.shape, aval.dtype.name, "uint32", aval.dtype.words)
    dtype = aval.dtype
    stored = f"uint{8 * dtype.itemsize}" if dtype.kind == "V" else dtype.name
    return _Leaf(path, aval.shape, dtype.name, stored, 0)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a leaf that this process writes."""

    number: int
    index: tuple[slice, ...]
    value: Ndarray


class Save:
    """A checkpoint that is being written.

    Example:
      >>> import calque.numpy as jnp, tempfile
      >>> from calque import checkpoints
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     writing = checkpoints.save(folder, {"w": jnp.ones(2)}, background=True)
      ...     writing.wait()
      ...     writing.done()
      True
    """

    def __init__(self, run: Callable[[], None], background: bool) -> None:
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, args=(run,), name="calque checkpoint")
            self._thread.start()  # no daemon: the interpreter waits for it
        else:
            run()

    def __repr__(self) -> str:
        done = self._thread is None or not self._thread.is_alive()
        state = ("failed" if self._error is not None else "written") if done else "being written"
        return f"<calque.checkpoints.Save: {state}>"

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # raised again by `wait`
            self._error = error

    def done(self) -> bool:
        """Whether it is written, or has failed.

        Returns:
          A bool.

        Example:
          >>> import calque.numpy as jnp, tempfile
          >>> from calque import checkpoints
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     checkpoints.save(folder, [jnp.ones(2)]).done()
          True
        """
        return self._thread is None or not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until it is written.

        Returns:
          None.

        Raises:
          OSError: it could not be written; what was there before is as it was.
          JaxRuntimeError: a process is lost.

        Example:
          >>> import calque.numpy as jnp, tempfile
          >>> from calque import checkpoints
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     checkpoints.save(folder, [jnp.ones(2)], background=True).wait()
        """
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error


_last: list[Save] = []  # one after the other


def save(folder: str | os.PathLike[str], tree: Any, *, background: bool = False) -> Save:
    """Write a tree of arrays to a folder, from all processes together.

    The folder must be one that all processes see.  What was saved there before stays until the new
    checkpoint is whole, and is deleted then.

    Args:
      folder: where to; made if it does not exist.
      tree: of arrays and numbers; of arrays that do not span processes process 0's are written.
      background: return at once and write behind the next steps; the arrays are held until then.

    Returns:
      A Save, whose `wait` says whether it went well.

    Raises:
      TypeError: a leaf is no array or number.
      ValueError: the trees of the processes differ.
      OSError: it could not be written; what was there before is as it was.
      RuntimeError: tensorstore is not installed.
      JaxRuntimeError: a process is lost.

    Example:
      >>> import calque.numpy as jnp, tempfile
      >>> from calque import checkpoints
      >>> params = {"w": jnp.ones((2, 2)), "step": 3}
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = checkpoints.save(folder, params)
      ...     checkpoints.load(folder, params)["step"]
      3
    """
    _tensorstore()
    while _last:
        _last.pop().wait()
    pairs, _ = tree_util.tree_flatten_with_path(tree)
    leaves, parts, chunks = [], [], []
    world = distributed.peers()
    for i, (path, x) in enumerate(pairs):
        name = tree_util.keystr(path)
        if not is_arraylike(x):
            raise TypeError(explain(
                f"checkpoints.save: {name or 'the tree'} is a {type(x).__name__}, no array or "
                "number.", fix="leave it out of the tree."))
        leaf = _leaf(name, aval_of(x))
        leaves.append(leaf)
        chunk, mine = _parts(i, x, leaf, world is None or world.rank == 0)
        chunks.append(chunk)
        parts += mine
    token = _agreed(world, str(Path(folder)), leaves)
    target, comm = Path(folder), None if world is None else world.named("checkpoint")

    def run() -> None:
        _write(target, f"data-{token}", leaves, chunks, parts, world, comm)

    made = Save(run, background)
    if background:
        _last.append(made)
    return made


def _parts(number: int, x: Any, leaf: _Leaf, first: bool
           ) -> tuple[tuple[int, ...], list[_Part]]:
    """The sizes of a leaf's chunks, and the parts of it that this process writes."""
    sharding = x.sharding if isinstance(x, Array) else None
    if not isinstance(sharding, NamedSharding) or not sharding.spans:
        value = x._numpy() if isinstance(x, Array) else np.asarray(x, dtype_of(x))
        shape = leaf.shape if not isinstance(sharding, NamedSharding) else (
            sharding.shard_shape(leaf.shape))
        whole = (slice(None),) * len(leaf.sizes)
        return (*shape, *leaf.sizes[len(shape):]), [_Part(number, whole, value)] if first else []
    parts = [_Part(number, s.index, s.data._numpy()) for s in x.addressable_shards
             if s.replica_id == 0]
    shape = sharding.shard_shape(leaf.shape)
    return (*shape, *leaf.sizes[len(shape):]), parts


def _agreed(world: Any, folder: str, leaves: Sequence[_Leaf]) -> str:
    """A name that is new, the same in all processes; ValueError where their trees differ."""
    token = uuid.uuid4().hex[:12]
    if world is None:
        return token
    world.agree(f"save {folder} {leaves}", "checkpoints.save",
                told=f"checkpoints.save({folder!r}) of {len(leaves)} arrays: "
                     f"{', '.join(leaf.path for leaf in leaves[:5])}")
    return str(world.gathered(token.encode(), "checkpoints.save")[0].decode())


def _write(folder: Path, name: str, leaves: Sequence[_Leaf], chunks: Sequence[Shape],
           parts: Sequence[_Part], world: Any, comm: Any) -> None:
    """Process 0 makes the arrays, all write their parts, process 0 writes the index."""
    first = world is None or world.rank == 0

    def together(step: Callable[[], None], what: str) -> None:
        error = ""
        try:
            step()
        except Exception as e:  # tensorstore's, or the file system's: all processes are told
            error = f"{type(e).__name__}: {e}"
        _all_well(error, what, folder, world, comm)

    try:
        together(lambda: _make(folder / name, leaves, chunks) if first else None, "made")
        together(lambda: _fill(folder / name, leaves, parts, first), "written")
        together(lambda: _publish(folder, name, leaves) if first else None, "published")
    except BaseException:  # also after the index was replaced, when a process is lost
        if first and not _is_published(folder, name):
            shutil.rmtree(folder / name, ignore_errors=True)
        raise


def _all_well(error: str, what: str, folder: Path, world: Any, comm: Any) -> None:
    """OSError in all processes where one of them has failed."""
    errors = [error]
    if world is not None:
        text = error.encode()[:_LONGEST].ljust(_LONGEST)
        errors = [t.decode(errors="replace").strip() for t in world.gathered(
            text, f"checkpoints.save to {folder}", comm)]
    bad = next((i for i, e in enumerate(errors) if e), None)
    if bad is not None:
        raise OSError(explain(
            f"the checkpoint {folder} could not be {what}: {errors[bad]} (process {bad}).",
            fix="see that the folder can be written in every process, and how much space is "
                "left; what was saved there before is as it was."))


def _spec(folder: Path, i: int) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder / str(i))}}


def _make(folder: Path, leaves: Sequence[_Leaf], chunks: Sequence[Shape]) -> None:
    ts = _tensorstore()
    folder.mkdir(parents=True)
    made = [ts.open({**_spec(folder, i), "metadata": {
        "shape": list(leaf.sizes), "data_type": leaf.stored,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}}},
        create=True) for i, (leaf, chunk) in enumerate(zip(leaves, chunks)) if 0 not in leaf.sizes]
    for m in made:
        m.result()


def _fill(folder: Path, leaves: Sequence[_Leaf], parts: Sequence[_Part], first: bool) -> None:
    ts = _tensorstore()
    stores: dict[int, Any] = {}
    writes = []
    for part in parts:
        leaf = leaves[part.number]
        if 0 in leaf.sizes:
            continue
        if part.number not in stores:
            stores[part.number] = ts.open(_spec(folder, part.number), open=True).result()
        value = np.ascontiguousarray(part.value).view(leaf.stored).reshape(part.value.shape)
        writes.append((part.value.nbytes, stores[part.number][part.index].write(value)))
    with _progress("saving", sum(n for n, _ in writes) if first else 0) as advance:
        for size, w in writes:
            w.result()
            advance(size)


def _publish(folder: Path, name: str, leaves: Sequence[_Leaf]) -> None:
    """The index, by one rename; then what it does not name goes."""
    index = {"version": _VERSION, "data": name, "leaves": [
        {"path": leaf.path, "shape": leaf.shape, "dtype": leaf.dtype, "stored": leaf.stored,
         "words": leaf.words} for leaf in leaves]}
    part = folder / f"{_INDEX}.{name}"
    with part.open("w") as file:
        json.dump(index, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / _INDEX)
    for other in [*folder.glob("data-*"), *folder.glob(f"{_INDEX}.data-*")]:
        if other.is_dir() and other.name != name:
            shutil.rmtree(other, ignore_errors=True)
        elif not other.is_dir():
            with contextlib.suppress(OSError):  # the checkpoint is whole all the same
                other.unlink()


def _is_published(folder: Path, name: str) -> bool:
    try:
        return bool(json.loads((folder / _INDEX).read_text())["data"] == name)
    except (OSError, ValueError, KeyError):
        return False


# ---- what is read
def load(folder: str | os.PathLike[str], like: Any) -> Any:
    """Read a tree of arrays from a folder, in all processes together.

    Args:
      folder: where `save` wrote it.
      like: a tree of the same structure: arrays or ShapeDtypeStructs, whose shardings say where the
        arrays go, NumPy arrays and Python numbers.

    Returns:
      A tree like `like`.

    Raises:
      FileNotFoundError: the folder has no index: nothing was saved there, or not to the end.
      ValueError: it holds another tree, or arrays of other shapes or dtypes; each is named.
      OSError: it cannot be read.
      RuntimeError: tensorstore is not installed.

    Example:
      >>> import calque.numpy as jnp, tempfile
      >>> from calque import checkpoints
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = checkpoints.save(folder, {"w": jnp.ones(2)})
      ...     checkpoints.load(folder, {"w": jnp.zeros(2)})
      {'w': Array([1., 1.], dtype=float32)}
    """
    ts = _tensorstore()
    where = Path(folder)
    index = _index(where)
    pairs, tree = tree_util.tree_flatten_with_path(like)
    stored = {row["path"]: (i, row) for i, row in enumerate(index["leaves"])}
    wanted = [_leaf(tree_util.keystr(path), aval_of(x)) for path, x in pairs]
    _check(where, wanted, {path: row for path, (_, row) in stored.items()})
    made = []
    with _progress("loading", _bytes(wanted)) as advance:
        for leaf, (_, x) in zip(wanted, pairs):
            i = stored[leaf.path][0]
            store = None if 0 in leaf.sizes else ts.open(
                _spec(where / index["data"], i), open=True, read=True).result()
            made.append(_read(store, leaf, x))
            advance(np.dtype(leaf.stored).itemsize * int(np.prod(leaf.sizes)))
    return tree.unflatten(made)


def _bytes(leaves: Sequence[_Leaf]) -> int:
    world = distributed.peers()
    return sum(np.dtype(leaf.stored).itemsize * int(np.prod(leaf.sizes)) for leaf in leaves) if (
        world is None or world.rank == 0) else 0


def _index(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / _INDEX).read_text())
    except FileNotFoundError:
        raise FileNotFoundError(explain(
            f"{folder} holds no checkpoint: it has no {_INDEX}.",
            fix="give the folder that was given to checkpoints.save; where its program was ended "
                "before the first one was whole, there is none.")) from None
    except ValueError as error:
        raise ValueError(explain(f"{folder / _INDEX} is damaged: {error}",
                                 fix="load another checkpoint.")) from error
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise ValueError(explain(f"{folder / _INDEX} is of another version, or no index of ours.",
                                 fix="load it with the version of calque that saved it."))
    return found


def _check(folder: Path, wanted: Sequence[_Leaf], stored: dict[str, dict[str, Any]]) -> None:
    """ValueError that names every leaf that is missing, or another one."""
    rows = [f"  {leaf.path or '(the tree)'}: not in the checkpoint" for leaf in wanted
            if leaf.path not in stored]
    known = {leaf.path for leaf in wanted}
    rows += [f"  {path or '(the tree)'}: in the checkpoint, not in `like`" for path in stored
             if path not in known]
    for leaf in wanted:
        row = stored.get(leaf.path)
        if row is not None and (tuple(row["shape"]), row["dtype"]) != (leaf.shape, leaf.dtype):
            rows.append(f"  {leaf.path or '(the tree)'}: {row['dtype']}{list(row['shape'])} in the "
                        f"checkpoint, {leaf.dtype}{list(leaf.shape)} in `like`")
    if rows:
        shown = [*rows[:20], f"  and {len(rows) - 20} more"] if len(rows) > 20 else rows
        raise ValueError(explain(
            "\n".join([f"the checkpoint {folder} is not like `like`:", *shown]),
            fix="give load a tree like the one that was saved."))


def _read(store: Any, leaf: _Leaf, like: Any) -> Any:
    def box(index: tuple[slice, ...]) -> Ndarray:
        shape = tuple(len(range(*s.indices(n))) for s, n in zip(index, leaf.sizes))
        if store is None:
            return np.zeros((*shape, *leaf.sizes[len(shape):]), leaf.stored)
        return np.asarray(store[index].read().result())

    def numbers(index: tuple[slice, ...]) -> Ndarray:
        found = np.ascontiguousarray(box(index)).reshape(box_shape(index))
        return found if leaf.words else found.view(aval.dtype)

    def box_shape(index: tuple[slice, ...]) -> Shape:
        cut = tuple(len(range(*s.indices(n))) for s, n in zip(index, leaf.sizes))
        return (*cut, *leaf.sizes[len(cut):])

    aval = aval_of(like)
    whole = (slice(None),) * len(leaf.sizes)
    sharding = like.aval.placement if isinstance(like, Array) else (
        like.sharding if isinstance(like, ShapeDtypeStruct) else None)
    if not isinstance(like, (Array, ShapeDtypeStruct)):
        value = numbers(whole)
        return value if isinstance(like, np.ndarray) else value[()] if isinstance(
            like, np.generic) else value.item()
    if sharding is not None and sharding.spans and not leaf.words:
        return make_array_from_callback(leaf.shape, sharding, numbers, dtype=aval.dtype)
    value = numbers(whole)
    if leaf.words:
        made = Array(to_array(value)._buffer, aval.plain)
    else:
        made = from_numpy(value, aval.weak_type)
    return made if sharding is None else device_put(made, sharding)


# ---- a bar on a terminal
class _progress:  # noqa: N801  (a context manager)
    """A bar for what has bytes, on a terminal."""

    def __init__(self, what: str, size: int) -> None:
        self.what, self.size, self.bar = what, size, None

    def __enter__(self) -> Callable[[int], None]:
        import sys
        if self.size < (64 << 20) or not config.calque_progress or not sys.stderr.isatty():
            return lambda n: None
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
        bar: Any = Progress(self.what, BarColumn(), DownloadColumn(), TimeRemainingColumn(),
                            console=Console(stderr=True), transient=True)
        self.bar = bar
        bar.start()
        task = bar.add_task(self.what, total=self.size)
        return lambda n: bar.advance(task, n)

    def __exit__(self, *_: Any) -> None:
        bar: Any = self.bar
        if bar is not None:
            bar.stop()


def __dir__() -> list[str]:
    return __all__
