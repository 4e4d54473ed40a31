"""Messages between processes are VM imports, like callbacks: `core.processes.sender` sends them.

The runtime gives them this process's memory and what they write into (runtime/callbacks).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import processes
from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule
from calque.lowering.rules.callback import call_host


class Message:
    """A message as a function of arrays that are read and arrays that are written."""

    into = True  # runtime/callbacks: results are written into memory that is given

    def __init__(self, kind: str, axes: tuple[processes.Between, ...], how: dict[str, Any],
                 where: str) -> None:
        self.kind, self.axes, self.how, self.where = kind, axes, how, where
        self.origin: processes.Origin | None = None  # set by dispatch/sharded/partition
        self.send: Any = None

    def ask(self) -> int:
        """The program has come to it: its number.

        Raises:
          ValueError: others run another program for the first time.
        """
        self.send = processes.sender(self.kind, self.axes, self.how, self.where, self.origin)
        self.ask = self.send.ask  # type: ignore[method-assign]  # from now on: it is called often
        return self.ask()

    def __call__(self, arrays: Sequence[Any], results: Sequence[Any], number: int) -> None:
        self.send(arrays, results, number)

    def drop(self, number: int, error: BaseException) -> None:
        """It cannot be sent."""
        self.send.drop(number, error)

    def __str__(self) -> str:
        how = "".join(f" {k}={v}" for k, v in self.how.items())
        return f"{self.kind} over {', '.join(map(str, self.axes))}{how}"


@rule("message_reduce", "message_gather", "message_exchange", "message_scatter", "message_permute")
def _message(op: Op) -> list[Value]:
    how = {k: v for k, v in op.params.items() if k != "axes"}
    kind = op.ctx.equation.name.removeprefix("message_")
    made = Message(kind, op["axes"], how, str(op.ctx.equation.source))
    results = call_host(op, made)
    for r in results:
        op.ctx.imported |= op.ctx.aliases.roots_of(r)
    return results
