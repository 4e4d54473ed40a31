"""Exchange of values between the processes of a program: jax.experimental.multihost_utils.

Messages are MPI's.  A process that is lost is an error in all others, never a hang.
Start reading at `process_allgather`.
"""
from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from calque import distributed
from calque.core.errors import explain
from calque.core.mesh import Mesh
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.core.types import Ndarray
from calque.dispatch.array import Array, to_array
from calque.dispatch.sharded.shards import (
    device_put,
    local_part,
    make_array_from_process_local_data,
    prefix_leaves,
)
from calque.trees import util as tree_util

__all__ = ["assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
           "host_local_array_to_global_array", "process_allgather",
           "reached_preemption_sync_point", "sync_global_devices"]

_SHOWN = 80  # bytes of a name
_PIECE = 1 << 30  # bytes of a message: MPI counts in 32 bits


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes, in each of them.

    Args:
      in_tree: a tree of arrays and numbers, of one structure, shapes and dtypes in all processes.
      tiled: join along the first axis, instead of stacking along a new one (numbers are stacked).
        Arrays that span processes take tiled=True.

    Returns:
      The tree with NumPy arrays: of shape (processes, *shape), or (processes * n, *rest) for tiled
      ones of shape (n, *rest); the whole of arrays that span processes.

    Raises:
      ValueError: shapes, dtypes or structures differ between processes; an array spans processes,
        and tiled is False.
      JaxRuntimeError: a process is lost, or ended before it came here.

    Example:
      >>> import calque
      >>> from calque.experimental import multihost_utils
      >>> multihost_utils.process_allgather({"loss": 2.0})
      {'loss': array([2.], dtype=float32)}
    """
    leaves, tree = tree_util.flatten(in_tree)
    if not tiled and any(map(_spans, leaves)):
        raise ValueError(explain(
            "Gathering global non-fully-addressable arrays only supports tiled=True",
            fix="pass tiled=True: the whole array is returned."))
    arrays = [_whole(x) if _spans(x) else _array(x) for x in leaves]
    _check_alike(arrays, str(tree), "process_allgather")
    return tree.unflatten([
        a if _spans(x) else _joined(_gathered(a)) if tiled else _gathered(a)
        for x, a in zip(leaves, arrays)])


def _joined(every: Ndarray) -> Ndarray:
    """The processes' values along their first axis; numbers are stacked."""
    return every if every.ndim == 1 else every.reshape(-1, *every.shape[2:])


def _spans(x: Any) -> bool:
    return isinstance(x, Array) and x.sharding.spans


def _whole(x: Any) -> Ndarray:
    return np.asarray(device_put(x, NamedSharding(x.sharding.mesh, PartitionSpec())))


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """One process's values, in all of them.

    Args:
      in_tree: a tree of arrays and numbers, of one structure, shapes and dtypes in all processes.
      is_source: whether this process's values are those; None: process 0's are.

    Returns:
      The tree with NumPy arrays.

    Raises:
      ValueError: shapes, dtypes or structures differ between processes; not one process is the
        source.
      JaxRuntimeError: a process is lost, or ended before it came here.

    Example:
      >>> import calque
      >>> from calque.experimental import multihost_utils
      >>> multihost_utils.broadcast_one_to_all([1, 2.5])
      [array(1, dtype=int32), array(2.5, dtype=float32)]
    """
    leaves, tree = tree_util.flatten(in_tree)
    arrays = [np.array(_array(x)) for x in leaves]
    world = distributed.peers()
    mine = (world is None or world.rank == 0) if is_source is None else bool(is_source)
    _check_alike(arrays, str(tree), "broadcast_one_to_all")
    sources = np.flatnonzero(_gathered(np.array(mine)))
    if len(sources) != 1:
        raise ValueError(explain(
            f"broadcast_one_to_all: {len(sources)} processes say that they are the source.",
            fix="is_source must hold in one process."))
    if world is not None:
        for a in arrays:
            flat = a.reshape(-1).view(np.uint8) if a.size else a
            for i in range(0, flat.nbytes, _PIECE):
                part = flat[i:i + _PIECE]
                world.finish(world.comm.Ibcast([part, part.size, world.mpi.BYTE],
                                               int(sources[0])), "broadcast_one_to_all")
    return tree.unflatten(arrays)


def sync_global_devices(name: str) -> None:
    """Wait until all processes have come here.

    Args:
      name: what this place is called; the same in all processes.

    Returns:
      None.

    Raises:
      AssertionError: the processes are at places of different names.
      JaxRuntimeError: a process is lost, or ended before it came here.

    Example:
      >>> from calque.experimental import multihost_utils
      >>> multihost_utils.sync_global_devices("before the checkpoint")
    """
    digest = np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], np.uint8)
    try:
        assert_equal(digest)
    except AssertionError:  # in all of them
        short = np.frombuffer(name.encode()[:_SHOWN].ljust(_SHOWN), np.uint8)
        rows = [f"  process {p}: '{bytes(n).decode(errors='replace').strip()}'"
                for p, n in enumerate(_gathered(short))]
        raise AssertionError(explain(
            "\n".join([f"sync_global_devices name mismatch ('{name}'):", *rows]),
            fix="make all processes come to the same places in one order.")) from None


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same values.

    Args:
      in_tree: a tree of arrays and numbers, of one structure, shapes and dtypes in all processes.
      fail_message: what the error says.

    Returns:
      None.

    Raises:
      AssertionError: the values differ (NaN equals NaN).
      ValueError: shapes, dtypes or structures differ between processes.
      JaxRuntimeError: a process is lost, or ended before it came here.

    Example:
      >>> from calque.experimental import multihost_utils
      >>> multihost_utils.assert_equal({"step": 3}, "the processes are at different steps")
    """
    leaves, tree = tree_util.flatten(in_tree)
    arrays = [_array(x) for x in leaves]
    _check_alike(arrays, str(tree), "assert_equal")
    for i, a in enumerate(arrays):
        every = _gathered(a)
        bad = [p for p in range(len(every))
               if not np.array_equal(every[p], every[0], equal_nan=a.dtype.kind in "fc")]
        if bad:
            raise AssertionError(explain(
                f"{fail_message or 'the values of the processes differ'}: leaf {i} of process "
                f"{bad[0]} is not that of process 0.",
                fix="make all processes compute the same, or broadcast_one_to_all."))


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes are to save and stop at this step, as one of them is being preempted.

    From the first call on SIGTERM does not end the process: it asks all of them to agree on a step
    that none has reached yet, at which each gets True.

    Args:
      step_id: number of the step; rises from call to call.

    Returns:
      A bool, at each step the same in all processes.

    Raises:
      RuntimeError: distributed.initialize was not called.
      JaxRuntimeError: a process is lost, or ended before it came here.

    Example:
      >>> import calque
      >>> from calque.experimental import multihost_utils
      >>> multihost_utils.reached_preemption_sync_point(0)
      Traceback (most recent call last):
      RuntimeError: Preemption sync manager has not been initialized...
    """
    world = distributed.peers()
    if world is None or world.control is None:
        raise RuntimeError(explain(
            "Preemption sync manager has not been initialized.",
            fix="call calque.distributed.initialize first, in several processes."))
    control = world.control
    if not world.noticed:
        world.noticed = True
        signal.signal(signal.SIGTERM, lambda *_: control.send({"preempted": step_id}))
    with control.changed:
        control.step = step_id
        if control.asked:
            if control.preempt_at is None:
                control.send({"step": step_id})
            while control.preempt_at is None:
                control.check("reached_preemption_sync_point")
                control.changed.wait(0.1)
        return control.preempt_at == step_id


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Each process's arrays as arrays over a mesh of all processes' devices.

    Args:
      local_inputs: tree of arrays: what this process has of each.
      global_mesh: the mesh.
      pspecs: tree prefix of PartitionSpecs: how each is spread; a dimension that no axis splits is
        the same in all processes.

    Returns:
      The tree, of Arrays; those that span processes already are left as they are.

    Raises:
      ValueError: a spec does not fit an array, or pspecs is no tree prefix.

    Example:
      >>> import calque, numpy as np
      >>> from calque.experimental import multihost_utils
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> mesh = Mesh(calque.devices()[:1], ("x",))
      >>> multihost_utils.host_local_array_to_global_array(np.ones(2, np.float32), mesh, P("x"))
      Array([1., 1.], dtype=float32)
    """
    def spread(x: Any, where: NamedSharding) -> Any:
        return x if _spans(x) else make_array_from_process_local_data(where, _array(x))

    return _each("host_local_array_to_global_array", spread, local_inputs, global_mesh, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """What this process has of arrays over a mesh of all processes' devices.

    Args:
      global_inputs: tree of Arrays.
      global_mesh: the mesh.
      pspecs: tree prefix of PartitionSpecs: how each is to be spread before.

    Returns:
      The tree, of Arrays over this process's devices.

    Raises:
      ValueError: a spec does not fit an array, or pspecs is no tree prefix.

    Example:
      >>> import calque, numpy as np
      >>> from calque.experimental import multihost_utils
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> mesh = Mesh(calque.devices()[:1], ("x",))
      >>> multihost_utils.global_array_to_host_local_array(np.ones(2, np.float32), mesh, P("x"))
      Array([1., 1.], dtype=float32)
    """
    def mine(x: Any, where: NamedSharding) -> Any:
        whole = device_put(x, where)
        return local_part(whole) if _spans(whole) else whole

    return _each("global_array_to_host_local_array", mine, global_inputs, global_mesh, pspecs)


def _each(name: str, f: Callable[[Any, NamedSharding], Any], values: Any, mesh: Mesh, pspecs: Any
          ) -> Any:
    """f of each leaf of a tree, and of where its spec says that it lies."""
    leaves, tree = tree_util.flatten(values)
    specs = prefix_leaves(f"{name} pspecs", pspecs, values)
    return tree.unflatten([f(x, NamedSharding(mesh, s or PartitionSpec()))
                           for x, s in zip(leaves, specs)])


def _array(x: Any) -> Ndarray:
    return np.asarray(x if isinstance(x, (np.ndarray, np.generic)) else to_array(x))


def _check_alike(arrays: list[Ndarray], tree: str, what: str) -> None:
    """ValueError in all processes where their arguments are not of one kind."""
    world = distributed.peers()
    if world is None:
        return
    said = f"{what} of {tree} of {', '.join(f'{a.dtype}{list(a.shape)}' for a in arrays)}"
    world.agree(said, what)


def _gathered(a: Ndarray) -> Ndarray:
    """An array of all processes, stacked."""
    world = distributed.peers()
    if world is None:
        return np.array(a)[None]
    whole = np.empty((world.size, *a.shape), a.dtype)
    mine = np.ascontiguousarray(a).reshape(-1).view(np.uint8) if a.size else np.empty(0, np.uint8)
    pieces = whole.reshape(world.size, -1).view(np.uint8) if a.size else mine
    step = max(1, _PIECE // world.size)
    for i in range(0, mine.size, step):
        part = mine[i:i + step]
        if part.size == mine.size:
            target = pieces
        else:
            target = np.empty((world.size, part.size), np.uint8)
        world.finish(world.comm.Iallgather([part, part.size, world.mpi.BYTE],
                                           [target, part.size, world.mpi.BYTE]),
                     "process_allgather")
        if target is not pieces:
            pieces[:, i:i + step] = target
    return whole


def __dir__() -> list[str]:
    return __all__
