"""Programs of several processes, on one host or many: jax.distributed's names.

  cluster.py      which launcher started this process
  world.py        MPI's world, and messages that no lost process can hang
  coordinator.py  the process that they find each other by: a child of process 0
  members.py      its connections: who belongs to the program, and who is refused
  comparison.py   whether all ask each other for the same things in one order
  control.py      a process's connection to it
  calls.py        what this process has asked the others for
  messages.py     collectives of compiled programs, one MPI call each
  checkpoints.py  trees of arrays in folders, written by all together (calque.checkpoints)

`initialize` stands first in a program.  Start reading there, then at world.World.
"""
from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calque import runtime
from calque.core import processes
from calque.core.errors import explain
from calque.distributed import cluster
from calque.runtime.errors import DeviceError
from calque.runtime.lane import messages as lane

if TYPE_CHECKING:  # it costs time, and most programs are one process
    from calque.distributed.world import World

__all__ = ["initialize", "is_initialized", "shutdown"]

_world: World | None = None


def initialize(coordinator_address: str | None = None, num_processes: int | None = None,
               process_id: int | None = None,
               local_device_ids: int | Sequence[int] | None = None,
               cluster_detection_method: str | None = None, initialization_timeout: int = 300,
               heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300,
               coordinator_bind_address: str | None = None, slice_index: int | None = None,
               partition_index: int | None = None) -> None:
    """Make this process one of several that run the same program.

    Three ways: `mpiexec -n 4 python prog.py` and Slurm's srun need no arguments; by hand each
    process is given the address, their number and its own.  The processes are MPI's world (mpi4py,
    with the mpich wheel or a cluster's MPI; by hand it must be MPICH's, whose processes a child of
    process 0 brings together).

    Args:
      coordinator_address: host:port of process 0, where nothing else listens.
      num_processes: how many there are.
      process_id: which of them this is, from 0.
      local_device_ids: which GPU of the host is this process's (None: the first process on it has
        the first, and so on, counted round); of no effect on CPUs, where jax_num_cpu_devices says
        how many devices there are.
      cluster_detection_method: 'mpi4py', 'ompi', 'slurm', or 'deactivate'; None: what the
        environment says.
      initialization_timeout: seconds within which all processes must come.
      heartbeat_timeout_seconds: seconds of silence after which a process counts as lost.
      shutdown_timeout_seconds: seconds that `shutdown`, and the end of the program, wait for the
        others.
      coordinator_bind_address: host:port at which process 0 listens; None: the port of
        coordinator_address, at all addresses of the host.
      slice_index, partition_index: accepted, of no effect here.

    Returns:
      None.

    Raises:
      RuntimeError: called twice, or after devices were used; no mpi4py or no MPI library.
      ValueError: an argument is missing and no launcher says it, or is out of range.
      JaxRuntimeError: the coordinator cannot be reached or cannot listen, not all processes came in
        time, two have one number, or their versions differ.

    Example:
      >>> import calque
      >>> calque.distributed.initialize(num_processes=1, process_id=0)
      >>> calque.process_index(), calque.process_count()
      (0, 1)
      >>> calque.distributed.shutdown()
    """
    global _world
    if _world is not None:
        raise RuntimeError("distributed.initialize should only be called once.")
    from calque.distributed.world import World
    del slice_index, partition_index
    _check_times(initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds)
    gpus = _check_ids(local_device_ids)
    given = coordinator_address is not None or num_processes is not None or process_id is not None
    found = None if given else cluster.detected(cluster_detection_method)
    if found is not None and found.kind != "mpi":
        coordinator_address, num_processes, process_id = found.address, found.size, found.rank
    if found is None and num_processes == 1 and process_id in (None, 0):
        _world = World.alone()
        return
    if found is None or found.kind != "mpi":
        _check_given(coordinator_address, num_processes, process_id)
    if runtime.device.is_used():
        raise RuntimeError(explain(
            "distributed.initialize() must be called before any calque computation or question "
            "for devices: the devices of other processes are not known yet.", "",
            "make it the first call of the program."))
    times = (float(initialization_timeout), float(heartbeat_timeout_seconds),
             float(shutdown_timeout_seconds))
    devices = runtime.device.cpu_count()
    if found is not None and found.kind == "mpi":
        _world = World.by_mpi(devices, gpus, *times)
    else:
        assert coordinator_address is not None and num_processes is not None
        assert process_id is not None
        _world = World.by_hand(coordinator_address, num_processes, process_id, devices, gpus,
                               coordinator_bind_address, *times)
    if _world.size > 1:
        from calque.distributed.messages import Engine
        processes.engine[:] = [Engine(_world)]
    atexit.register(_at_exit)


def shutdown() -> None:
    """Leave the program together with the other processes; its end does the same.

    Returns:
      None.

    Raises:
      RuntimeError: `initialize` was not called.
      JaxRuntimeError: a process was lost while this one waited for it.

    Example:
      >>> import calque
      >>> calque.distributed.initialize(num_processes=1, process_id=0)
      >>> calque.distributed.shutdown()
      >>> calque.distributed.is_initialized()
      False
    """
    global _world
    if _world is None:
        raise RuntimeError(explain("distributed.shutdown: nothing was initialized.", "",
                                   "call distributed.initialize first."))
    world, _world = _world, None
    lane.drain(world.shutdown_timeout if world.size > 1 else None)
    processes.engine.clear()
    world.shutdown()


def is_initialized() -> bool:
    """Whether `initialize` was called, and `shutdown` not.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.distributed.is_initialized()
      False
    """
    return _world is not None


def peers() -> World | None:
    """The processes of this program; None where there is one."""
    return None if _world is None or _world.size == 1 else _world


def _at_exit() -> None:
    global _world
    if _world is None:
        return
    import os
    import sys
    ended, _world = _world, None
    if ended.error is None:  # others wait for what was asked for
        lane.drain(ended.shutdown_timeout)
    control = ended.control
    failure = None if control is None else control.failure
    try:
        ended.shutdown()
    except DeviceError as error:
        failure = str(error)
    if failure is not None and ended.error is None:
        fix = f"\n  Fix: {control.fix}" if control and "Fix: " not in failure else ""
        print(f"calque: {failure}{fix}", file=sys.stderr)
    if failure is not None or not lane.is_idle():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # MPI's threads may wait for those who are lost


def _check_times(*times: float) -> None:
    for t in times:
        if not t > 0:
            raise ValueError(explain(f"a time-out must be more than 0 seconds, got {t}.", "",
                                     "leave it out, or give seconds."))


def _check_ids(ids: int | Sequence[int] | None) -> list[int]:
    every = [] if ids is None else [ids] if isinstance(ids, int) else list(ids)
    if any(not isinstance(i, int) or i < 0 for i in every) or len(set(every)) != len(every):
        raise ValueError(explain(
            f"local_device_ids must be different numbers from 0, got {ids!r}.", "",
            "give the numbers of this process's devices on its host, such as [0]."))
    return every


def _check_given(address: str | None, size: int | None, rank: int | None) -> None:
    names = {"coordinator_address": address, "num_processes": size, "process_id": rank}
    missing = [name for name, value in names.items() if value is None]
    if missing:
        raise ValueError(explain(
            f"{' and '.join(missing)} should be defined: no launcher started this process.", "",
            "run mpiexec -n 4 python prog.py, or srun python prog.py in a Slurm job, or give all "
            "three: initialize('host:1234', num_processes=4, process_id=0) in process 0, ... ."))
    assert address is not None and size is not None and rank is not None
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(explain(
            f"coordinator_address must be host:port, got {address!r}.", "",
            "such as 'localhost:1234': process 0's host, and a port that is free there."))
    if size < 1 or not 0 <= rank < size:
        raise ValueError(explain(
            f"process_id must be from 0 to num_processes - 1, got {rank} of {size}.", "",
            "give each process its own number."))


def __dir__() -> list[str]:
    return __all__
