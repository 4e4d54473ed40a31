"""Which launcher started this process, and what it says: mpiexec, Slurm, or nobody.

Start reading at `detected`.
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass

from calque.core.errors import explain

METHODS = ("mpi4py", "ompi", "slurm", "deactivate")
_MPICH, _OMPI = ("PMI_RANK", "PMI_SIZE"), "OMPI_COMM_WORLD_SIZE"
_PORTS = 4096  # from the end of the range: a job's number chooses one


@dataclass(frozen=True, slots=True)
class Cluster:
    """How the processes find each other: by MPI ('mpi', which knows the rest), or by hand."""

    kind: str
    address: str | None = None
    size: int | None = None
    rank: int | None = None


def detected(method: str | None) -> Cluster | None:
    """What the environment says; None where nobody started this process.

    Args:
      method: one of METHODS; None asks for each that there is.

    Raises:
      ValueError: no such method.
      RuntimeError: the method is named, and its launcher did not start this process.
    """
    if method is not None and method not in METHODS:
        raise ValueError(explain(
            f"cluster_detection_method must be one of {', '.join(METHODS)} or None, got "
            f"{method!r}.", "", "leave it out: mpiexec and Slurm are recognized."))
    if method == "deactivate":
        return None
    ranks = {"ompi": [_OMPI], "mpi4py": [*_MPICH, _OMPI]}
    if method in (None, "mpi4py", "ompi"):
        if any(name in os.environ for name in ranks[method or "mpi4py"]):
            return Cluster("mpi")
        if method is not None:
            raise RuntimeError(explain(
                f"cluster_detection_method={method!r}: no mpiexec started this process.", "",
                "run mpiexec -n 4 python prog.py."))
    names = ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID")
    nodes = os.environ.get("SLURM_STEP_NODELIST", os.environ.get("SLURM_JOB_NODELIST"))
    if nodes and all(name in os.environ for name in names):
        job, size, rank = (int(os.environ[name]) for name in names)
        port = 65536 - _PORTS + job % _PORTS
        return Cluster("hand", f"{first_node(nodes)}:{port}", size, rank)
    if method == "slurm":
        raise RuntimeError(explain(
            "cluster_detection_method='slurm': srun did not start this process (SLURM_PROCID, "
            "SLURM_NTASKS, SLURM_JOB_ID or the list of nodes is not set).", "",
            "run srun python prog.py within a job."))
    return None


def first_node(nodes: str) -> str:
    """The first host of Slurm's notation: 'gpu[03-07,11],login1' is gpu03.

    Example:
      >>> from calque.distributed.cluster import first_node
      >>> first_node("gpu[03-07,11],login1"), first_node("n1,n2"), first_node("a[1,3]-ib")
      ('gpu03', 'n1', 'a1-ib')
    """
    found = re.match(r"([^,\[]*)(?:\[([^\]]*)\]([^,\[]*))?", nodes)
    assert found is not None  # the pattern matches the empty text
    head, ranges, tail = found.groups()
    if ranges is None:
        return str(head)
    return f"{head}{re.split('[-,]', ranges)[0]}{tail}"
