"""IREE's compiler in a process of its own: `python server.py KIND FOLDER...`.

It reads pickled requests (number, source, flags, stage, careful) from its standard input and writes
pickled answers (number, kind, value, phases) to its standard output, in the order in which they are
ready; each request has a thread.  kind is 'done' (the bytes; where shortcuts were asked for
'short', or 'long' with why no stage was left out), 'again' (why IREE has to link it), 'failed'
(diagnostics: pairs of severity and text) or 'error' (an exception); phases is a list of (stage,
start, end), by time.perf_counter_ns, a clock that processes share.  It ends when its input does.
KIND is 'short' (shortcuts only), 'cpu' (programs for CPUs) or 'all' (for any target); FOLDERs hold
the package iree.compiler; nothing of calque is imported, and neither NumPy nor MLIR's bindings.
lowering/compiler/process.py is the other end.
"""
from __future__ import annotations

import ctypes
import importlib.util
import os
import pickle
import signal
import sys
import threading
import time
import types
from typing import Any

STAGES = ("input", "abi", "preprocessing", "global-optimization",
          "dispatch-creation", "flow", "stream", "executable-sources", "executable-configurations",
          "executable-targets", "hal", "vm", "end")

# What IREE links into every program, for LLVM to optimise and the linker to drop: no form of ours
# calls these (tests/lowering/test_symbols.py), so LLVM passes them by.  The others of the two
# libraries (memset, memcpy, memmove, fmodf, fma, conversions of halves) it may call.
_UNUSED = (
    "__extendhfdf2", "__fesetround", "__gnu_f2h_ieee", "__gnu_h2f_ieee", "__math_divzero",
    "__math_invalid", "__math_invalidf", "__math_oflow", "__math_oflowf", "__math_uflow",
    "__math_uflowf", "__math_xflow", "__math_xflowf", "__truncdfhf2", "ceilf", "exp", "expf",
    "feclearexcept", "fegetenv", "fegetround", "feraiseexcept", "fesetenv", "fetestexcept", "floor",
    "floorf", "frexpf", "iree_f2h_ieee", "iree_h2f_ieee", "ldexpf", "log", "powf", "rintf", "round",
    "roundf", "scalbnf", "specialcase")

# elf_link.py has its own, and a process for shortcuts links with nothing else.
_OWN = ("memcpy", "memmove", "memset")

# No flag of IREE's: programs that are kernels of ours leave out stages (stream_module.py), and
# dispatches are linked here (link.py).
SHORTCUTS = "--calque-short-ways"

# What kernels of ours write once and call (kernels/shell): LLVM would inline it at every use.
FUNCTIONS = tuple(f"calque_function_{i}" for i in range(64))

# Options of the process.  MLIR's threads cost a tenth and gain nothing, also for large programs.
# Of tiles 64 wide, IREE's default, loops end so soon that long chains of arithmetic do not overlap:
# exp(x - m) of 2048 x 2048 takes twice as long at x86-64-v3, a softmax 1.5 times.
# Without the last, programs whose dispatches take numbers known at the call only look into the
# memory of their arguments when the call is queued, and IREE's CPU queue refuses that of results
# which are parts of memory it has not given out yet ("transient buffer has not been committed":
# tests/runtime/test_queued_chains.py).
_OPTIONS = ["--mlir-disable-threading", "--iree-llvmcpu-distribution-size=128",
            "--iree-hal-force-indirect-command-buffers",
            *(f"--force-attribute={name}:noinline" for name in FUNCTIONS)]


# Parts of the compiler that programs for CPUs do without.  Patterns are looked up among the
# operations of all parts: without these a small program takes 0.78 of the time.
_OTHERS = ("hal_target_cuda", "hal_target_metal_spirv", "hal_target_rocm", "hal_target_vmvx",
           "hal_target_vulkan_spirv", "input_torch", "input_tosa")


Phase = tuple[str, int, int]


class _Operation(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_void_p)]  # MlirOperation


def load(folders: list[str], kind: str = "all") -> Any:
    """IREE's Python API of its C interface, without the rest of the package (0.2 s)."""
    for name, parts in (("iree", ()), ("iree.compiler", ("compiler",))):
        if name in sys.modules:
            continue
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(f, "iree", *parts) for f in folders]
        sys.modules[name] = module
    from iree.compiler import api
    from iree.compiler.api import ctypes_dl
    library, pointer = ctypes_dl._dylib, ctypes.c_void_p
    for name, result, *arguments in (
            ("ireeCompilerInvocationEnableCallbackDiagnostics", None, pointer, ctypes.c_int,
             _RECEIVER, pointer),
            ("ireeCompilerInvocationSetVerifyIR", None, pointer, ctypes.c_bool),
            ("ireeCompilerInvocationSetCompileFromPhase", None, pointer, ctypes.c_char_p),
            ("ireeCompilerInvocationSetCompileToPhase", None, pointer, ctypes.c_char_p),
            ("ireeCompilerInvocationExportStealModule", _Operation, pointer),
            ("ireeCompilerInvocationImportStealModule", ctypes.c_bool, pointer, _Operation),
            ("mlirOperationVerify", ctypes.c_bool, _Operation)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    passed_by = [f"--force-attribute={name}:{attribute}"
                 for name in (*_UNUSED, *(_OWN if kind == "short" else ()))
                 for attribute in ("noinline", "optnone")]
    less = [f"--iree-plugin=-{name}" for name in _OTHERS] if kind != "all" else []
    ctypes_dl._initializeGlobalCL("calque", *_OPTIONS, *passed_by, *less)
    return api


_RECEIVER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def _receiver(sink: list[tuple[int, str]]) -> Any:
    """What puts an invocation's diagnostics into a list: the Python API lacks it."""
    def receive(severity: int, text: int, length: int, _: int) -> None:
        sink.append((severity, ctypes.string_at(text, length).decode("utf-8", "replace")))
    return _RECEIVER(receive)


def without_shortcuts(flags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f for f in flags if f != SHORTCUTS)


def run(api: Any, source: bytes, flags: tuple[str, ...], stage: str, phases: list[Phase],
        careful: bool = False, configured: bool = True) -> tuple[str, Any]:
    """One compile: what is answered; `phases` gets when each stage ran.

    Kernels for CUDA get configurations of ours where IREE takes them (`configured`), else its own.

    MLIR's verifier looks at the program after each stage, and after each pass (a quarter of the
    time) only where that fails, or the caller wants it: to say which pass.
    """
    from iree.compiler.api import ctypes_dl
    library = ctypes_dl._dylib
    diagnostics: list[tuple[int, str]] = []
    short = SHORTCUTS in flags and not stage and not careful
    reason = ""
    receiver = _receiver(diagnostics)  # it has to live as long as the invocation may call it
    # (a session of its own: one that is used again is no faster, for its tables have grown)
    with api.Session() as session:
        plain = without_shortcuts(flags)
        session.set_flags(*plain)
        if short:
            ran: list[Phase] = []
            program, reason = _at_once(api, library, session, source, plain, ran)
            if program is not None:
                phases.extend(ran)
                return "short", program
        with session.invocation() as invocation:
            handle = invocation._inv_p
            library.ireeCompilerInvocationEnableCallbackDiagnostics(handle, 0, receiver, None)
            library.ireeCompilerInvocationSetVerifyIR(handle, careful)
            good = invocation.parse_source(api.Source.wrap_buffer(session, source))
            before, ours = b"start", 0
            for name in STAGES[:STAGES.index(stage or "end") + 1] if good else ():
                start = time.perf_counter_ns()
                if name == "hal" and short:
                    fault = _sibling("link").link_here(
                        library, invocation, _advance, _sibling("elf_link"))
                    if fault:
                        return "again", fault
                else:
                    good = _advance(library, handle, before, name.encode())
                if good and name == "executable-configurations" and configured and _is_cuda(plain):
                    ours = _reconfigured(library, handle)
                phases.append((name, start, time.perf_counter_ns()))
                before = name.encode()
                if not good:
                    break
            if good:
                with api.Output.open_membuffer() as output:
                    (invocation.output_ir if stage else invocation.output_vm_bytecode)(output)
                    program = bytes(output.map_memory())
                    return ("long", (program, reason)) if short else ("done", program)
    if ours:
        return run(api, source, flags, stage, phases, careful, configured=False)
    if careful:
        return "failed", diagnostics
    return run(api, source, flags, stage, phases, careful=True)


_LARGEST = 1 << 20  # bytes of a module that is printed, to see whether it is kernels of ours
_devices: dict[tuple[str, ...], str] = {}  # by flags: stream_module.device


def _at_once(api: Any, library: Any, session: Any, source: bytes, flags: tuple[str, ...],
             phases: list[Phase]) -> tuple[bytes | None, str]:
    """The .vmfb of a program that is kernels of ours, without the stages that have nothing to do
    for them; or why not, and then nothing has happened."""
    if b"flow" not in source or len(source) > _LARGEST:
        return None, "no kernels of ours"
    stream = _sibling("stream_module")
    try:
        with _Invocations(api, library, session, phases, flags) as mine:
            text = mine.printed(mine.parsed(source))
            if flags not in _devices:
                empty = mine.parsed(b"module {}")
                mine.stage(empty, stream.AFTER, "executable-configurations")
                phases.clear()  # it was not the program's
                _devices[flags] = stream.device(mine.printed(empty))
            found = stream.rewritten(text, _devices[flags])
            elves = _side_by_side(api, library, mine, found.texts, flags, phases)
            start = time.perf_counter_ns()
            parts = _sibling("host_module")
            host = parts.text(stream.host(found.main, parts), found.counts, found.where, elves)
            program: bytes = _sibling("link").finish(api, library, session, _advance, host.encode())
            phases.append(("hal", start, time.perf_counter_ns()))
            return program, ""
    except Exception as error:  # whatever it is, the ordinary way does without
        return None, f"{type(error).__name__}: {error}"


class _Invocations:
    """What a session compiles, closed together; `phases` gets when each stage ran."""

    def __init__(self, api: Any, library: Any, session: Any, phases: list[Phase],
                 flags: tuple[str, ...]) -> None:
        self.api, self.library, self.session, self.phases = api, library, session, phases
        self.flags = flags
        self.ignored = _receiver([])
        self.all: list[Any] = []

    def __enter__(self) -> _Invocations:
        return self

    def __exit__(self, *_: Any) -> None:
        for invocation in self.all:
            invocation.close()

    def parsed(self, text: bytes) -> Any:
        invocation = self.session.invocation()
        self.all.append(invocation)
        library, handle = self.library, invocation._inv_p
        library.ireeCompilerInvocationEnableCallbackDiagnostics(handle, 0, self.ignored, None)
        library.ireeCompilerInvocationSetVerifyIR(handle, False)
        if not invocation.parse_source(self.api.Source.wrap_buffer(self.session, text)):
            raise ValueError("it does not parse")
        return invocation

    def printed(self, invocation: Any) -> str:
        with self.api.Output.open_membuffer() as output:
            invocation.output_ir(output)
            return bytes(output.map_memory()).decode()

    def stage(self, invocation: Any, before: str, name: str) -> None:
        start = time.perf_counter_ns()
        good = _advance(self.library, invocation._inv_p, before.encode(), name.encode())
        self.phases.append((name, start, time.perf_counter_ns()))
        if not good:
            raise ValueError(f"stage {name} refuses it")

    def executable(self, text: str) -> bytes:
        """The shared object of kernels after stream_module.AFTER."""
        known = _kept.get((text, self.flags))
        if known is not None:
            return known
        invocation = self.parsed(text.encode())
        before = _sibling("stream_module").AFTER
        for name in ("executable-configurations", "executable-targets"):
            self.stage(invocation, before, name)
            before = name
        start = time.perf_counter_ns()
        elf: bytes = _sibling("link").linked(
            self.library, invocation, _advance, _sibling("elf_link"))
        self.phases.append(("hal", start, time.perf_counter_ns()))
        with _keeping:
            _kept[text, self.flags] = elf
            while len(_kept) > 1 and sum(map(len, _kept.values())) > _MOST_KEPT:
                del _kept[next(iter(_kept))]
        return elf


# Shared objects by the text that they were made of: a product of other sizes is the same code, and
# is told them, and so are other calls of kernels in C.
_kept: dict[tuple[str, tuple[str, ...]], bytes] = {}
_keeping = threading.Lock()
_MOST_KEPT = 32 << 20


def _side_by_side(api: Any, library: Any, mine: _Invocations, texts: list[str],
                  flags: tuple[str, ...], phases: list[Phase]) -> list[bytes]:
    """The shared objects of modules of kernels: as many at a time as there are cores, each thread
    with a session of its own (MLIR's contexts are one thread's)."""
    if len(texts) == 1:
        return [mine.executable(texts[0])]
    left = list(enumerate(texts))[::-1]
    elves: dict[int, bytes] = {}
    faults: list[Exception] = []

    def take(own: _Invocations) -> None:
        try:
            while left and not faults:
                number, text = left.pop()
                elves[number] = own.executable(text)
        except IndexError:  # (another thread took the last)
            pass
        except Exception as error:
            faults.append(error)

    def work() -> None:
        with api.Session() as session:
            session.set_flags(*flags)
            ran: list[Phase] = []
            with _Invocations(api, library, session, ran, flags) as own:
                take(own)
            phases.extend(ran)

    threads = [threading.Thread(target=work) for _ in range(min(_cores(), len(texts)) - 1)]
    for thread in threads:
        thread.start()
    take(mine)
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return [elves[k] for k in range(len(texts))]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # (not on macOS and Windows)
        return os.cpu_count() or 1


_loading = threading.Lock()  # (of threads that want the same module)


def _sibling(name: str) -> Any:
    """A module beside this one, which runs as a script: its folder is no place to import from."""
    known = f"calque_{name}"
    with _loading:
        if known not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                known, os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py"))
            assert spec is not None and spec.loader is not None
            sys.modules[known] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def _is_cuda(flags: tuple[str, ...]) -> bool:
    """Whether a program is compiled for CUDA, by its name or an attribute (target/cuda.py)."""
    device = "--iree-hal-target-device="
    return any(f.startswith((device + "cuda", f'{device}#hal.device.target<"cuda"')) for f in flags)


def _reconfigured(library: Any, handle: Any) -> int:
    """How many kernels for CUDA were cut into other blocks (gpu_configuration.py)."""
    module = library.ireeCompilerInvocationExportStealModule(handle)
    try:
        return int(_sibling("gpu_configuration").configure(library, module))
    finally:
        library.ireeCompilerInvocationImportStealModule(handle, module)


def _advance(library: Any, handle: Any, before: bytes, after: bytes) -> bool:
    """One stage of the compiler, and the verifier; whether all is well."""
    library.ireeCompilerInvocationSetCompileFromPhase(handle, before)
    library.ireeCompilerInvocationSetCompileToPhase(handle, after)
    if not library.ireeCompilerInvocationPipeline(handle, 0):
        return False
    module = library.ireeCompilerInvocationExportStealModule(handle)
    valid = library.mlirOperationVerify(module)
    return bool(library.ireeCompilerInvocationImportStealModule(handle, module) and valid)


def main(kind: str, folders: list[str]) -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    requests, answers = os.fdopen(0, "rb", closefd=False), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the compiler prints is no answer
    api, lock = load(folders, kind), threading.Lock()

    def answer(number: int, source: bytes, flags: tuple[str, ...], stage: str,
               careful: bool) -> None:
        phases: list[Phase] = []
        try:
            kind, value = run(api, source, flags, stage, phases, careful)
        except Exception as error:
            kind, value = "error", error
        with lock:
            pickle.dump((number, kind, value, phases), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()

    while True:
        try:
            request = pickle.load(requests)
        except EOFError:  # the process that asks ended, perhaps killed
            import shutil  # (2 ms, of a start that somebody waits for)
            for _ in range(100):  # (threads at work may be writing there)
                shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
                if not os.path.exists(os.environ["TMPDIR"]):
                    break
            os._exit(0)
        threading.Thread(target=answer, args=request, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
