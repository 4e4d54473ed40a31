"""Ray starts the processes, on whatever hosts its cluster has: python examples/launchers/by_ray.py

Ray places tasks and has no collectives; each task is a process of one program of calque's, found
by an address on the host of the first.  pip install ray
"""
from __future__ import annotations

import runpy
import socket
import sys
from pathlib import Path

import ray

PROGRAM = Path(__file__).parents[1] / "option_processes.py"
PORT = 23457


@ray.remote(num_cpus=1)
class Process:
    """An actor: a process of its own, which stays until the program ends."""

    def host(self) -> str:
        return socket.gethostbyname(socket.gethostname())

    def run(self, address: str, processes: int, process: int) -> tuple[float, float]:
        import calque
        calque.distributed.initialize(address, processes, process)
        found = runpy.run_path(str(PROGRAM))["price"](2_400_000)
        calque.distributed.shutdown()
        return found


def main(processes: int) -> None:
    ray.init()
    actors = [Process.remote() for _ in range(processes)]
    address = f"{ray.get(actors[0].host.remote())}:{PORT}"
    found = ray.get([a.run.remote(address, processes, k) for k, a in enumerate(actors)])
    print(*[f"process {k}: {price:.4f} +- {error:.4f}" for k, (price, error) in enumerate(found)],
          sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
