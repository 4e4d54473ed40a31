"""Programs over flat arrays of any size: elementwise work, any shape (lowering/driver/flat).

An entry point takes arrays of one size (or rank 0) as one axis, and behind them memory for each
result.  Calls of little work whose arguments are ready run inline, others are queued.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime import leaving
from calque.runtime.buffer import Buffer, Shape
from calque.runtime.device import Device, check_not_forked, vm_instance
from calque.runtime.dtypes import element_type
from calque.runtime.errors import device_error
from calque.runtime.executable import NO_FENCE, Module, first_failure, join_fences
from calque.runtime.memory import allocate
from calque.runtime.watch import span, watchers

_List = rt.VmVariantList
_View = rt.HalBufferView


class FlatExecutable:
    """An entry point for arrays of any one size.

    Args:
      module: the compiled module.
      device: where it runs.
      entry: name of the function.
      scalars: for each argument, whether it is passed with rank 0.
      results: dtypes of the results.
      name: what profiles call it; without one the entry's.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.sin(jnp.zeros((2, 3))).shape  # runs a flat executable
      (2, 3)
    """

    __slots__ = ("_inline", "_queued", "device", "entry", "module", "name", "results", "scalars")

    def __init__(self, module: Module, device: Device, entry: str, scalars: Sequence[bool],
                 results: Sequence[np.dtype[Any]], name: str = "") -> None:
        vm_instance()  # before the first push_ref: it registers the types of references
        self.module, self.device, self.entry = module, device, entry
        self.name = name or entry
        self.scalars = tuple(scalars)
        self.results = tuple((dtype, element_type(dtype)) for dtype in results)
        self._inline: Any = None  # (invoke, function) on device.sync
        self._queued: Any = None  # the same on device.task

    def __call__(self, args: Sequence[Buffer], shape: Shape, run_inline: bool) -> list[Buffer]:
        """Run on arguments of `shape` (or one element); results come at once, ready or not."""
        device, results = self.device, self.results
        size = math.prod(shape)
        check_not_forked()
        variants = _List(len(args) + len(results) + 2)
        push = variants.push_ref
        flat = (size,)
        waits = []
        for arg, scalar in zip(args, self.scalars):
            ref = arg.taken()
            wanted = () if scalar else flat
            if arg.shape != wanted:
                ref = _View(arg.view.get_buffer(), wanted, element_type(arg.dtype))
            push(ref)
            if arg.fence is not None and not arg.is_ready():
                waits.append(arg.fence)
        inline = run_inline and not waits and device.is_host
        if not inline:  # before there is more memory; elementwise work has nothing in between
            given = size * sum([dtype.itemsize for dtype, _ in results])
            device.pending.make_room(0, given)
        outputs = []
        for dtype, element in results:
            memory = allocate(device, size * dtype.itemsize, self.name)
            view = _View(memory, flat, element)
            push(view)
            outputs.append(view if shape == flat else _View(memory, shape, element))
        if inline:
            push(NO_FENCE)
            push(NO_FENCE)
            done = None
            if self._inline is None:
                self._inline = self.module.function(device.sync, self.entry)
            invoke, function = self._inline
        else:
            done = device.task.create_semaphore(0)
            push(join_fences(waits))
            push(rt.HalFence.create_at(done, 1))
            if self._queued is None:
                self._queued = self.module.function(device.task, self.entry)
            invoke, function = self._queued
        try:
            if watchers:
                with span(self.name, "run" if inline else "queue", device=str(device)) as watched:
                    invoke(function, variants, _List(len(outputs)))
                    if not inline:
                        watched.queued(device, done, waits)
            else:
                invoke(function, variants, _List(len(outputs)))
        except Exception as error:  # IREE maps its status codes to many classes
            raise device_error(first_failure(waits) or error, f"{self.entry} on {device}"
                               ) from error
        if done is not None:
            device.pending.add(done, 0, given)
            for arg in args:
                arg.note_reader(done)
        return [Buffer(view, shape, dtype, device, done)
                for view, (dtype, _) in zip(outputs, results)]


def _give_up(program: FlatExecutable, hal_devices: Collection[Any]) -> None:
    if program.device.is_of(hal_devices):
        program._inline = program._queued = None


leaving.gives_up(FlatExecutable, _give_up)
