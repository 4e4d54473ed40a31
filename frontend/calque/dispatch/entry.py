"""What a signature of a jitted function leads to: the traced Program and, once run, its executable.

Start reading at `Entry.ready`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config
from calque.core.lists import without
from calque.core.program import Program
from calque.core.refs import Uses
from calque.core.trace import Tracer
from calque.dispatch import costs, donation
from calque.dispatch.array import on_device
from calque.dispatch.captured import with_few_captured
from calque.dispatch.eager import Compiled, compiled
from calque.dispatch.orders import Orders, orders_for
from calque.dispatch.sharded.partial_programs import expanded, is_partial
from calque.dispatch.sharded.partition import name_messages, own_program
from calque.runtime import Device
from calque.trees import util as tree_util

MANY = 200  # results


class Entry:
    """What a signature leads to: the traced Program and, once run, its executable."""

    __slots__ = ("program", "out_tree", "consts", "compiled", "in_avals", "out_avals", "single",
                 "donated", "captures_tracers", "slow_path", "run", "device", "spans", "uses",
                 "_slow", "_checked", "_given", "quick", "told", "has_float0", "donates", "many",
                 "orders", "layouts")

    def __init__(self, program: Program, out_tree: Any, donated: tuple[int, ...],
                 uses: Uses) -> None:
        self.program, self.out_tree = program, out_tree
        self.uses = uses if uses.places or uses.closed or uses.rules else None  # of references
        self.captures_tracers = uses.local or any(isinstance(c, Tracer) for c in program.consts)
        self.consts: list[Any] = []
        self.compiled: Compiled | None = None
        self.in_avals: Sequence[ShapedArray] = program.in_avals
        self.out_avals = program.out_avals[:uses.count]
        self.told: Sequence[Any] = ()  # the sharding that out_shardings says of each result
        self.orders: Orders | None = None  # of what is not row-major
        self.layouts: Sequence[Any] = ()  # what out_shardings says of each result: Layouts, AUTO
        self.single = tree_util.treedef_is_leaf(out_tree)
        self.donated = tuple(i for i in donated if i not in uses.places)
        self._given: tuple[int, ...] | None = None
        self.has_float0 = any(a.dtype == dtypes.float0 for a in self.out_avals)
        # such calls always take the slow path: references, checks of results
        self._slow = bool(self.uses or self.has_float0 or config.jax_debug_nans
                          or config.jax_debug_infs or config.jax_no_execution
                          or config.jax_debug_key_reuse)
        self.slow_path = True  # until it is compiled
        self.run: Any = None
        self.device: Device | None = None
        self.spans = False  # whether its arrays span processes, or are of summands
        self._checked = self._slow
        self.quick = False  # whether they are, and nothing else takes the slow path
        self.donates = False  # whether it takes the slow path for what is given away alone
        self.many = False  # or for many results

    def place_in(self, spans: bool) -> None:
        """Note where its arrays are; calls over several processes take the slow path."""
        self._checked = self._slow or bool(self.donated)
        self.spans, self._slow = spans, self._slow or spans

    def lay_out(self, name: str, ins: Sequence[Any], layouts: Sequence[Any] = ()) -> None:
        """Note how arguments and results lie in memory, where one is not row-major."""
        if self.uses is not None:  # its operands are copied where they are read
            ins = ()
        orders = orders_for(name, self.program, ins, layouts, self.spans or self.uses is not None)
        if orders is not None and self.orders is None:
            self._checked, self._slow = self._slow or bool(self.donated), True
        self.layouts, self.orders = layouts, orders

    @property
    def given(self) -> tuple[int, ...]:
        """Which of the donated arguments are given away; of the others there is a warning, once."""
        if self._given is None:
            read = donation.read_of(self.program, self.donated)
            self._given = donation.usable(self.in_avals, self.out_avals, read)
            if rest := without(read, {read.index(i) for i in self._given}):
                donation.warn([self.in_avals[i] for i in rest])
        return self._given

    def own_program(self) -> Program:
        """The Program that this process runs; its own consts come before the program's."""
        if not self.spans:
            return self.program
        avals = (*[aval_of(c) for c in self.program.consts], *self.in_avals)
        return own_program(self.program, avals, self.out_avals)

    def logical_program(self) -> Program:
        """The Program that is shown, and analysed: of all devices."""
        return expanded(self.program) if is_partial(self.program) else self.program

    def ready(self, device: Device, reason: str) -> Compiled:
        """The executable, compiled at first use."""
        made = self.compiled
        if made is None or made.device is not device:
            if self.spans:
                program = self.own_program()
                consts = [*program.consts, *self.program.consts]
            else:
                program = with_few_captured(self.program)
                if self.orders is not None:
                    program = self.orders.program(program)
                consts = list(program.consts)
            costs.warn_of_captured(self.program, consts)
            made = compiled(program, device, tuple(d + len(consts) for d in self.given), reason,
                            lasting=False)
            name_messages(made.lowered, self.program)
            self.consts = [on_device(c, device) for c in consts]
            self.compiled, self.device = made, device
            self.run = made.executable if made.identity_abi else made
            self.slow_path = self._slow or bool(self.given)
            self.donates = bool(self.given) and not self._slow
            self.many = len(self.out_avals) > MANY and not (self._slow or made.lowered.callbacks)
            self.slow_path = self.slow_path or self.many
            self.quick = (self.spans or self.orders is not None) and not self._checked
        return made
