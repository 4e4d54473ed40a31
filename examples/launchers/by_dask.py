"""Dask starts the processes: python examples/launchers/by_dask.py [PROCESSES] [SCHEDULER]

Each worker is a process of one program of calque's; tasks are pinned to their workers, since all
must run at once.  Without the address of a scheduler workers of this host are started.
pip install distributed
"""
from __future__ import annotations

import runpy
import sys
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Client, LocalCluster

PROGRAM = Path(__file__).parents[1] / "option_processes.py"
PORT = 23458


def run(program: str, address: str, processes: int, process: int) -> tuple[float, float]:
    """What one worker does: once in its life, since a process is initialized once."""
    import calque
    calque.distributed.initialize(address, processes, process)
    found = runpy.run_path(program)["price"](2_400_000)
    calque.distributed.shutdown()
    return found


def main(processes: int, scheduler: str | None) -> None:
    cluster = scheduler or LocalCluster(n_workers=processes, threads_per_worker=1,
                                        dashboard_address=None)
    with Client(cluster) as client:
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])[:processes]
        address = f"{urlsplit(workers[0]).hostname}:{PORT}"
        running = [client.submit(run, str(PROGRAM), address, processes, k, workers=[w], pure=False)
                   for k, w in enumerate(workers)]
        for k, (price, error) in enumerate(client.gather(running)):
            print(f"process {k}: {price:.4f} +- {error:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2] if len(sys.argv) > 2 else None)
