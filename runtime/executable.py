"""Executables: a compiled program, loaded at first use, called with Buffers.

`Executable(vmfb, device, call)` holds the bytes; a call takes one of two roads.  Inline: the
program has little work (call_spec.py) and every argument is ready, so it runs on the local-sync
device inside the call and the results are ready.  Queued: everything else goes to the local-task
device, waits there for the join of the arguments' fences, and returns at once with results behind a
new fence.
Programs are compiled with `--iree-execution-model=async-external` (two fences after the arguments).
"""
from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import iree.runtime as rt

from calque.runtime import cuda, leaving
from calque.runtime import device as _device
from calque.runtime.buffer import Buffer, wrap_view
from calque.runtime.call_spec import CallSpec, Spec
from calque.runtime.callbacks import make_module, take_failure
from calque.runtime.device import (
    Device,
    check_not_forked,
    hal_module,
    idle_memory,
    trim_occasionally,
    vm_instance,
)
from calque.runtime.dtypes import element_type
from calque.runtime.errors import (
    ArtifactError,
    DeviceError,
    clean,
    explain,
    is_exhausted,
    size_text,
)
from calque.runtime.idle import LARGE
from calque.runtime.lane import messages
from calque.runtime.memory import allocate, exhausted, free
from calque.runtime.watch import span, watchers

_List = rt.VmVariantList
_View = rt.HalBufferView
_Fence = rt.HalFence
_create_fence = rt.HalFence.create_at
# An empty fence is reached before anyone asks and takes a signal without a word, so one serves as
# wait and signal fence of every inline call (0.3 us cheaper than a semaphore a call).
NO_FENCE = rt.HalFence(0)


# The only thread that may run what sends messages to other processes (jax_thread_guard).
sender: list[int | None] = [None]


def check_sender(what: str) -> None:
    """Raise RuntimeError where another thread is the only one that may send messages."""
    if sender[0] is not None and sender[0] != threading.get_ident():
        raise RuntimeError(explain(
            f"thread_guard: {what} sends messages to other processes, and is called from another "
            "thread than the one that set the guard.", "",
            "call it from that thread, or leave the context first."))


class Module:
    """A compiled module, loaded once per IREE device and shared by all its entry points.

    Args:
      vmfb: the module's bytes.
      callbacks: Python functions that it calls.
      parameters: what gives the arrays that it reads from an archive (runtime/parameters).

    Example:
      >>> import calque.aot, calque.numpy as jnp
      >>> from calque import runtime
      >>> artifact = calque.aot.compile(jnp.negative, "f32[2]")
      >>> module = runtime.Module(artifact.vmfb)
      >>> device = runtime.default_device()
      >>> invoke, function = module.function(device.sync, "main")
    """

    __slots__ = ("_contexts", "_lock", "_names", "callbacks", "parameters", "vmfb")

    def __init__(self, vmfb: bytes, callbacks: Sequence[Any] = (), parameters: Any = None) -> None:
        self.vmfb = vmfb
        self.parameters = parameters
        self.callbacks = callbacks
        self._contexts: dict[int, tuple[Any, Any]] = {}
        self._names: frozenset[str] | None = None
        self._lock = threading.Lock()

    def names(self, hal_device: Any) -> frozenset[str]:
        """The entry points."""
        if self._names is None:
            self._names = frozenset(self._at(hal_device)[1].function_names)
        return self._names

    def function(self, hal_device: Any, entry: str) -> tuple[Any, Any]:
        """(invoke, function) of an entry point on an IREE device."""
        context, module = self._at(hal_device)
        function = module.lookup_function(entry)
        if function is None:
            raise ArtifactError(explain(
                f"the compiled program has no entry point {entry!r}; it has "
                f"{', '.join(n for n in module.function_names if n != '__init')}.", "",
                "name one of those."))
        return context.invoke, function

    def _at(self, hal_device: Any) -> tuple[Any, Any]:
        """(context, module), loaded at first use on each IREE device."""
        with self._lock:
            loaded = self._contexts.get(id(hal_device))  # devices are immortal: no id is reused
            if loaded is None:
                loaded = _load(self, hal_device)
                self._contexts[id(hal_device)] = loaded
        return loaded


class Executable:
    """A program on a device.

    Args:
      vmfb: the compiled module, as bytes or as a Module that several executables share.
      device: where it runs.
      call: how it is called.
      entry: name of the function in the module.
      name: what profiles call it; without one the entry's.

    Example:
      >>> import calque.aot, calque.numpy as jnp, numpy as np
      >>> from calque import runtime
      >>> artifact = calque.aot.compile(jnp.negative, "f32[2]")
      >>> device = runtime.default_device()
      >>> program = runtime.Executable(artifact.vmfb, device, runtime.CallSpec(run_inline=True))
      >>> program([runtime.Buffer.from_numpy(np.ones(2, np.float32), device)])[0].numpy()
      array([-1., -1.], dtype=float32)
    """

    __slots__ = ("_donated", "_lock", "_may_alias", "_module",
                 "_must_run_inline", "_noted", "_on_sync", "_on_task", "_output_buffers",
                 "_result_bytes", "_runs_inline", "_sends", "_slow_path", "_specs", "_storage",
                 "_transient_bytes", "_transients", "device", "entry", "name", "result_specs")

    def __init__(self, vmfb: bytes | Module, device: Device, call: CallSpec, entry: str = "main",
                 name: str = "") -> None:
        vm_instance()  # before the first push_ref: it registers the types of references
        self.device = device
        self.entry = entry
        self.name = name or entry
        self._specs = call.results or ()
        self.result_specs: Sequence[Spec] | None = None
        if call.results is not None and None not in call.results:
            self.result_specs = [s for s in call.results if s is not None]
        self._module = vmfb if isinstance(vmfb, Module) else Module(vmfb)
        self._must_run_inline = call.must_run_inline and device.is_host
        self._runs_inline = (call.run_inline or call.must_run_inline) and device.is_host
        self._donated = frozenset(call.donated)
        # messages: while some are under way, others queue behind them
        self._sends = any([getattr(c[0], "into", False) for c in self._module.callbacks])
        self._slow_path = self._sends or not self._runs_inline or bool(
            call.output_buffers or call.transients)
        self._may_alias = call.may_alias
        self._output_buffers = call.output_buffers
        self._transient_bytes = call.transient_bytes
        self._transients = call.transients
        self._storage = 0  # bytes in which it works; known when it is loaded
        # what is new memory at least; a result that may be an argument's is taken to be
        self._result_bytes = sum(
            math.prod(spec[0]) * spec[1].itemsize for i, spec in enumerate(self._specs)
            if spec is not None and i not in (call.may_alias or ()))
        # What an inline call asks for is asked for by the program, so it is noted here.
        self._noted = LARGE if self.result_specs is None else self._result_bytes
        if self._noted < LARGE or self._slow_path or not device.is_host:
            self._noted = 0
        self._on_sync: tuple[Any, Any] | None = None  # (invoke, function) on device.sync
        self._on_task: tuple[Any, Any] | None = None  # the same on device.task
        self._lock = threading.Lock()

    def __call__(self, args: Sequence[Buffer]) -> list[Buffer]:
        """Run the program; results come back at once, ready or behind a fence."""
        if self._slow_path or _device._forked or watchers:
            return self._call_slow_path(args)
        given = [args[i] for i in self._donated] if self._donated else ()
        if given and (not all([arg.is_alone() for arg in given])
                      or len(set(map(id, args))) < len(args)):
            return self._call_slow_path(args)
        # The hot path, written flat on purpose: a helper call costs 0.2 us of 4.
        try:
            invoke, function = self._on_sync or self._load_inline()
            variants = _List(len(args) + 2)
            push = variants.push_ref
            for arg in args:
                if arg.fence is not None and not arg.is_ready():
                    return self._call_slow_path(args)
                ref = arg.ref
                push(arg.taken() if ref is None else ref)
            for arg in given:
                arg.delete()
            push(NO_FENCE)
            push(NO_FENCE)
            results = _List(1)
            invoke(function, variants, results)
            if self._noted:
                idle_memory.note(self._noted)
        except Exception as error:  # IREE maps its status codes to many classes
            kept = [arg for i, arg in enumerate(args) if i not in self._donated]
            raise self._explain(error, kept) from error
        specs = self.result_specs
        if specs is None:
            outputs = self._wrap(results, None)
        else:
            get, device = results.get_as_ref, self.device
            outputs = [Buffer(get(i), shape, dtype, device)
                       for i, (shape, dtype) in enumerate(specs)]
        if self._may_alias or self._may_alias is None:
            self._note_sharing(args, outputs)
        return outputs

    def load(self) -> None:
        """Load the program now rather than at the first call (errors come out here)."""
        if self._runs_inline:
            self._load_inline()
        else:
            self._load_queued()

    def _run_inline(self, refs: Sequence[Any]) -> list[Buffer]:
        variants = _List(len(refs) + 2)
        for ref in refs:
            variants.push_ref(ref)
        variants.push_ref(NO_FENCE)
        variants.push_ref(NO_FENCE)
        results = _List(4)
        invoke, function = self._on_sync or self._load_inline()
        try:
            if watchers:
                with span(self.name, "run", device=str(self.device)):
                    invoke(function, variants, results)
            else:
                invoke(function, variants, results)
        except Exception as error:  # IREE maps its status codes to many classes
            raise self._explain(error, ()) from error
        return self._wrap(results, None)

    def _wrap(self, results: Any, fence: Any) -> list[Buffer]:
        specs = self.result_specs
        device = self.device
        if specs is None:
            return [wrap_view(results.get_as_object(i, _View), device, fence)
                    for i in range(results.size)]
        get = results.get_as_ref
        return [Buffer(get(i), shape, dtype, device, fence)
                for i, (shape, dtype) in enumerate(specs)]

    def _call_slow_path(self, args: Sequence[Buffer]) -> list[Buffer]:
        """Calls with donation, pending arguments or much work."""
        if _device._forked:
            check_not_forked()
        device = self.device
        for arg in args:
            if arg.ref is None or arg.device is not device:
                self._check(args)
                break
        readers: Sequence[Buffer] = args
        if self._donated:
            readers = [arg for i, arg in enumerate(args) if i not in self._donated]
            views, waits = self._gather(args)
        else:
            views = [arg.taken() for arg in args]
            waits = [arg.fence for arg in args if arg.fence is not None and not arg.is_ready()]
        if self._must_run_inline and waits:
            for arg in args:
                arg.wait()
            waits = []
        inline = self._runs_inline and not waits and (
            not self._sends or self._must_run_inline or messages.is_idle())
        if self._sends:
            check_sender(self.name)
        if self._transients:
            self.load()  # it says how much memory is needed
        if not inline:  # before there is more memory
            device.pending.make_room(self._transient_bytes, self._result_bytes)
        views += map(self._allocate, self._output_buffers)
        if self._transients:
            views.append(allocate(device, max(self._storage, 1), f"{self.entry} on {device}",
                                  f"up to {size_text(self._result_bytes)}"))
        if inline:
            outputs = self._run_inline(views)
        else:
            outputs = self._run_queued(views, waits, readers)
        if self._may_alias or self._may_alias is None:
            self._note_sharing(args, outputs)
        return outputs

    def _run_queued(self, refs: Sequence[Any], waits: list[Any], readers: Sequence[Buffer]
                    ) -> list[Buffer]:
        try:
            try:
                done, results = self._queue(refs, waits)
            except Exception as error:  # IREE maps its status codes to many classes
                # A GPU's queue finds no memory while blocks lie in the cache.  (What was donated
                # may be overwritten in part.)
                if self._donated or self.device.is_host or not is_exhausted(error):
                    raise
                free(self.device)
                done, results = self._queue(refs, waits)
        except Exception as error:
            raise self._explain(first_failure(waits) or error, ()) from error
        self.device.pending.add(done, self._transient_bytes, self._result_bytes)
        for reader in readers:
            reader.note_reader(done)
        return self._wrap(results, done)

    def _queue(self, refs: Sequence[Any], waits: list[Any]) -> tuple[Any, Any]:
        """The semaphore of a call, and the list of its results."""
        variants, results = _List(len(refs) + 2), _List(4)
        for ref in refs:
            variants.push_ref(ref)
        done = self.device.task.create_semaphore(0)
        variants.push_ref(join_fences(waits))
        variants.push_ref(_create_fence(done, 1))
        invoke, function = self._on_task or self._load_queued()
        with span(self.name, "queue", device=str(self.device)) as watched:
            invoke(function, variants, results)
            watched.queued(self.device, done, waits)
        return done, results

    def _allocate(self, position: int) -> Any:
        """Memory for a result, from the allocator that keeps pages."""
        spec = self._specs[position]
        assert spec is not None
        shape, dtype = spec
        memory = allocate(self.device, math.prod(shape) * dtype.itemsize,
                          f"{self.entry} on {self.device}")
        return _View(memory, shape, element_type(dtype))

    def _explain(self, error: Exception, args: Sequence[Buffer]) -> BaseException:
        raised = take_failure() if self._module.callbacks else None
        if raised is not None:
            return raised
        if isinstance(error, (DeviceError, ArtifactError)):
            return error
        for arg in args:
            if arg.is_deleted():
                return arg.deleted_error()
        results = sum(math.prod(s) * d.itemsize for s, d in self.result_specs or ())
        return exhausted(error, self.device, f"{self.entry} on {self.device}",
                         f"up to {size_text(results + self._transient_bytes)}")

    def _check(self, args: Sequence[Buffer]) -> None:
        for position, arg in enumerate(args):
            arg.check_alive()
            if arg.device is not self.device and arg.device.task is not self.device.task:
                raise ValueError(explain(
                    f"argument {position} lives on {arg.device}, the program runs on "
                    f"{self.device}.", self.entry,
                    "move the argument with device_put(x, device) first."))

    def _gather(self, args: Sequence[Buffer]) -> tuple[list[Any], list[Any]]:
        """The views to pass and the semaphores to wait for; donated arguments are handed over."""
        waits: list[Any] = []
        views: list[Any] = [None] * len(args)
        for position, arg in enumerate(args):
            if position not in self._donated:
                views[position] = arg.taken()
                if arg.fence is not None and not arg.is_ready():
                    waits.append(arg.fence)
        times = Counter(map(id, args))
        for position in sorted(self._donated):
            arg = args[position]
            arg.is_ready()
            if times[id(arg)] > 1:  # f(x, x): the other reads what this writes
                arg = arg.copy()
            views[position], fences = arg.hand_over()
            waits += fences
        for position in self._donated:
            args[position].delete()
        return views, waits

    def _note_sharing(self, args: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Find results that are an argument's memory, or each other's, and note it in both; what
        was given away is deleted."""
        known = self._may_alias
        if known is None:  # an artifact, whose record is not believed
            owners: dict[str, Buffer] = {}
            for buffer in (*args, *outputs):
                if not buffer.is_deleted():  # (its memory's address stands in the text)
                    owner = owners.setdefault(repr(buffer.view.get_buffer().ref), buffer)
                    if owner is not buffer:
                        owner.share_with(buffer)
            return
        memory: dict[int, Any] = {}  # of what a result may share: None of what was given away
        for i, others in known.items():
            own = outputs[i].view.get_buffer().ref
            for k in others:
                if k not in memory:
                    other = args[k] if k >= 0 else outputs[-1 - k]
                    memory[k] = None if other.is_deleted() else other.view.get_buffer().ref
                if memory[k] is not None and memory[k] == own:
                    (args[k] if k >= 0 else outputs[-1 - k]).share_with(outputs[i])
                    break

    def _load_inline(self) -> tuple[Any, Any]:
        with self._lock:
            if self._on_sync is None:
                self._on_sync = self._load_on(self.device.sync)
            return self._on_sync

    def _load_queued(self) -> tuple[Any, Any]:
        with self._lock:
            if self._on_task is None:
                self._on_task = self._load_on(self.device.task)
            return self._on_task

    def _load_on(self, hal_device: Any) -> tuple[Any, Any]:
        loaded = self._module.function(hal_device, self.entry)
        if self._transients and not self._storage:
            self._storage = storage_bytes(loaded[1].reflection, self.entry)
            self._result_bytes += self._storage
            self._transient_bytes = 0
        return loaded


def storage_bytes(reflection: Mapping[str, str], entry: str) -> int:
    """Bytes of the memory in which a program works, as the compiler has written it."""
    text = reflection.get("iree.abi.transients.size.constant", "")
    if not text.isdecimal():
        raise ArtifactError(explain(
            "the compiled program does not say how much memory it works in.", entry,
            "compile it again; the file was written by something else or is damaged."))
    return int(text)


def _load(source: Module, hal_device: Any) -> tuple[Any, Any]:
    """(context, module) of a compiled module on an IREE device."""
    instance = vm_instance()
    trim_occasionally(hal_device)
    try:
        with span("load", "load", bytes=len(source.vmfb)):
            # copy_buffer aligns; Python's bytes are only 16-byte aligned and IREE wants 64.
            module = rt.VmModule.copy_buffer(instance, source.vmfb)
            more = [make_module(source.callbacks, hal_device)] if source.callbacks else []
            if source.parameters is not None:
                more.append(rt.create_io_parameters_module(instance, source.parameters))
            return rt.VmContext(instance, [hal_module(hal_device), *more, module]), module
    except Exception as error:  # IREE maps its status codes to many classes
        raise load_error(error) from error


def load_error(error: Exception, where: str = "") -> ArtifactError:
    """The ArtifactError for what IREE says about a module it cannot load."""
    text = clean(error)
    if "bytecode version mismatch" in text or "signature mismatch" in text:
        fix = ("compile it again with the compiler of the same minor version as this runtime, "
               f"iree-base-runtime {version('iree-base-runtime')}.")
    elif "FlatBuffer" in text or "flatbuffer" in text or "archive" in text or "header" in text:
        fix = "give a .vmfb file written by `calque compile`; this one is damaged or another kind."
    elif "CUDA_ERROR" in text:
        fix = (f"compile it for this card and driver (calque compile --target cuda:host), or "
               f"install a newer driver; {cuda.described()}.")
    elif "no executable" in text or "UNAVAILABLE" in text or "INCOMPATIBLE" in text:
        fix = "compile it for this device (calque compile --target ...)."
    else:
        fix = "compile it again here, for a target this machine has."
    return ArtifactError(explain(f"the compiled program cannot be loaded: {text}", where, fix))


def join_fences(semaphores: list[Any]) -> Any:
    """A fence reached when all semaphores have reached 1."""
    if not semaphores:
        return NO_FENCE
    fence = _Fence(len(semaphores))
    for semaphore in semaphores:
        fence.insert(semaphore, 1)
    return fence


def first_failure(semaphores: list[Any]) -> Exception | None:
    """What a failed semaphore says: a queue refuses such waits at once, in words of its own."""
    for semaphore in semaphores:
        try:
            semaphore.query()
        except RuntimeError as error:
            return error
    return None


def _give_up(program: Executable, hal_devices: Collection[Any]) -> None:
    if program.device.is_of(hal_devices):
        program._on_sync = program._on_task = None


def _give_up_module(module: Module, hal_devices: Collection[Any]) -> None:
    for hal in hal_devices:
        module._contexts.pop(id(hal), None)


leaving.gives_up(Module, _give_up_module)
leaving.gives_up(Executable, _give_up)
