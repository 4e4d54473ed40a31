"""How a server serves: where it listens, its limits, how it batches."""
from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import Any

from calque.runtime.errors import explain

LARGEST_BATCH = 64  # where no program of a known size is larger


class SettingsError(ValueError):
    """A setting of a server is out of range.

    Example:
      >>> from calque.runtime import serving
      >>> try:
      ...     serving.Settings(port=-1)
      ... except serving.SettingsError as error:
      ...     print(error)
      port is -1.
        In calque serve --port.
        Fix: give a number from 0 to 65535.
    """


def _setting(default: Any, least: float, most: float, about: str) -> Any:
    return field(default=default, metadata={"least": least, "most": most, "about": about})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server; `about` in a field's metadata says what it is.

    Attributes:
      host, port: where to listen; port 0 takes a free one.
      threads: how many calls run at the same time; 0: as many as there are cores, 4 at most.
      max_batch: rows of a batch at most; 0: as the largest program of a known size has, else 64.
      max_wait_ms: how long a request may wait for others though a thread is free, in milliseconds.
      batching: whether requests are put together at all.
      max_queue: how many requests may wait.
      max_body_mb: size of a body, in MiB.
      sessions: batches of a language model beside each other.
      max_sessions: sequences of modules with state at most.
      grace_s: seconds that requests under way have when the server ends.

    Raises:
      SettingsError: one is out of range.

    Example:
      >>> from calque.runtime import serving
      >>> serving.Settings(port=0, max_batch=16).batch_limit([1, 8])
      16
    """

    host: str = "127.0.0.1"
    port: int = _setting(8000, 0, 65535, "where to listen; 0 takes a free one")
    threads: int = _setting(0, 0, 1024, "how many calls run at the same time; 0: as many as there "
                            "are cores, 4 at most")
    max_batch: int = _setting(0, 0, 1 << 20, "rows of a batch at most; 0: as many as the largest "
                              "program of a known size has, else 64")
    max_wait_ms: float = _setting(0.0, 0, 60_000, "milliseconds that a "
                                  "request may wait for others though a thread is free")
    batching: bool = True
    max_queue: int = _setting(256, 1, 1 << 20, "how many requests may wait")
    max_body_mb: float = _setting(64.0, 1e-3, 1 << 14, "size of a body at most, in MiB")
    sessions: int = _setting(1, 1, 256, "batches of a language model beside each other, each with "
                             "its sequences and a thread")
    max_sessions: int = _setting(64, 1, 1 << 16, "sequences of a module with state at most")
    grace_s: float = _setting(30.0, 0, 86_400, "seconds that requests under way have when the "
                              "server ends")

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            least, most = f.metadata.get("least"), f.metadata.get("most")
            if least is None or most is None:
                continue
            whole = isinstance(f.default, int)
            if not isinstance(value, int | float) or not math.isfinite(value) or not (
                    least <= value <= most) or whole and value != int(value):
                raise SettingsError(explain(
                    f"{f.name} is {value}.", f"calque serve --{f.name.replace('_', '-')}",
                    f"give a {'whole ' if whole and f.name != 'port' else ''}number from "
                    f"{least:g} to {most:g}." if f.name != "port" else
                    "give a number from 0 to 65535."))

    @property
    def thread_count(self) -> int:
        """How many calls run at the same time."""
        return self.threads or min(4, os.cpu_count() or 1)

    @property
    def max_body(self) -> int:
        """Bytes of a body at most."""
        return int(self.max_body_mb * 2**20)

    def batch_limit(self, sizes: list[int]) -> int:
        """Rows of a batch at most, where there are programs of these sizes."""
        return self.max_batch or max([*sizes, 0]) or LARGEST_BATCH
