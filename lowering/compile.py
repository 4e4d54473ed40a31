"""MLIR text or bytecode in, .vmfb bytes out: IREE's compiler, in this process.

`compile_module` compiles for a Target; `compile_to` stops at a stage and returns text (the dumps
of CALQUE_DUMP and the CLI).  Diagnostics are captured, not printed, and a failure is a
CompileError that knows the user's line and the primitive, read from MLIR locations.  The compiler
runs in a worker thread, so that Ctrl-C reaches the user at once.  A crash of the compiler takes the
process with it; with CALQUE_COMPILE=process it runs in a process of its own (25-50 ms more), and a
crash is a CompileError too.  The compiler library is loaded at first use.
"""
from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calque.lowering.targets import Target

# Without the first, f64 programs are silently compiled as f32; without the third, sums are serial
# and inexact.  async-external gives every function a wait and a signal fence (runtime/executable).
MANDATORY = (
    "--iree-input-demote-f64-to-f32=false",
    "--iree-input-type=stablehlo",
    "--iree-execution-model=async-external",
)
_CPU_FLAGS = ("--iree-llvmcpu-reassociate-fp-reductions",)

STAGES = ("input", "abi", "preprocessing", "global-optimization",
          "dispatch-creation", "flow", "stream", "executable-sources", "executable-configurations",
          "executable-targets", "hal", "vm", "end")

_ERROR = 2  # iree_compiler_diagnostic_severity_t
_SLICE_S = 0.05
_WHERE = re.compile(r'^(?:loc\()?"?(?P<file>[^\s":()]+)"?:(?P<line>\d+):(?P<column>\d+)')
_counter = itertools.count()
_abandoned: list[threading.Thread] = []


class CompileError(RuntimeError):
    """IREE could not compile a program.

    Attributes:
      diagnostics: what the compiler said, one text each.
      mlir_path: the program, kept for a report ('' if it could not be written).
      primitive, where: the primitive and the user's 'file:line:column', '' where unknown.
    """

    def __init__(self, diagnostics: Sequence[str], mlir_path: str, primitive: str = "",
                 where: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.mlir_path = mlir_path
        self.primitive = primitive
        self.where = where
        super().__init__(_message(self.diagnostics, mlir_path, primitive, where))


def all_flags(target: Target, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Every flag of a compile, in order (the cache's key covers them all)."""
    own = _CPU_FLAGS if target.backend == "llvm-cpu" else ()
    return (*target.flags(), *MANDATORY, *own, *options)


def compile_module(source: bytes | str, target: Target, options: tuple[str, ...] = ()) -> bytes:
    """The .vmfb of an MLIR module for a target; CompileError with the diagnostics on failure."""
    return run_compiler(_as_bytes(source), all_flags(target, options))


def compile_to(source: bytes | str, target: Target, stage: str,
               options: tuple[str, ...] = ()) -> str:
    """The module as text after a stage of the compiler, one of `STAGES`."""
    if stage not in STAGES:
        raise ValueError(f"unknown stage {stage!r}.\n  Fix: choose one of {', '.join(STAGES)}.")
    text = run_compiler(_as_bytes(source), all_flags(target, options), stage)
    return text.decode("utf-8", "replace")


def run_compiler(source: bytes, flags: tuple[str, ...], stage: str = "") -> bytes:
    """Compile in a worker thread; this thread waits in slices, so that Ctrl-C comes through."""
    if os.environ.get("CALQUE_COMPILE") == "process":
        return _compile_in_process(source, flags, stage)
    outcome: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(_compile(source, flags, stage))
        except BaseException as error:  # handed to the waiting thread, whatever it is
            outcome.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=work, name="calque-compile", daemon=True)
    try:
        worker.start()
        while not done.wait(_SLICE_S):
            pass
    except BaseException:
        _abandoned.append(worker)
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return bytes(outcome[0])


@atexit.register
def _finish_abandoned() -> None:
    """Let compiles that Ctrl-C left behind finish: a thread killed inside LLVM aborts the process.

    A second Ctrl-C leaves at once.
    """
    try:
        for worker in _abandoned:
            while worker.is_alive():
                worker.join(_SLICE_S)
    except KeyboardInterrupt:
        os._exit(130)


@functools.cache
def compiler_version() -> str:
    """Version and revision of the compiler, for cache keys and artifacts (loads no library)."""
    from importlib.metadata import version
    return version("iree-base-compiler")


def _compile(source: bytes, flags: tuple[str, ...], stage: str) -> bytes:
    api, install, stop_after = _api()
    diagnostics: list[tuple[int, str]] = []
    with api.Session() as session:
        session.set_flags(*flags)
        with session.invocation() as invocation:
            callback = install(invocation, diagnostics)
            parsed = invocation.parse_source(api.Source.wrap_buffer(session, source))
            if parsed and stage:
                stop_after(invocation, stage)
            if not (parsed and invocation.execute()):
                raise _failure(source, flags, diagnostics)
            with api.Output.open_membuffer() as output:
                (invocation.output_ir if stage else invocation.output_vm_bytecode)(output)
                result = bytes(output.map_memory())
            del callback  # it had to live as long as the invocation could call it
    return result


def _compile_in_process(source: bytes, flags: tuple[str, ...], stage: str) -> bytes:
    """The same through iree-compile, for programs that crash the compiler."""
    from iree.compiler.tools import binaries
    command = [binaries.find_tool("iree-compile"), "-", *flags, "-o", "-"]
    if stage:
        command.append(f"--compile-to={stage}")
    done = subprocess.run(command, input=source, capture_output=True, check=False)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").replace(": error: ", ": ", 1)
    diagnostics = [(_ERROR, said)] if said.strip() else []
    if done.returncode < 0:
        signal_name = signal.Signals(-done.returncode).name
        diagnostics.insert(0, (_ERROR, f"the compiler crashed ({signal_name})"))
    raise _failure(source, flags, diagnostics)


@functools.cache
def _api() -> tuple[Any, Callable[[Any, list[tuple[int, str]]], Any], Callable[[Any, str], None]]:
    """IREE's Python API, and the two C functions it lacks: diagnostics callback, stop at stage."""
    from iree.compiler import api
    from iree.compiler.api import ctypes_dl
    library = ctypes_dl._dylib
    callback_type = ctypes.CFUNCTYPE(
        None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    enable = library.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.restype = None
    enable.argtypes = [ctypes.c_void_p, ctypes.c_int, callback_type, ctypes.c_void_p]
    set_phase = library.ireeCompilerInvocationSetCompileToPhase
    set_phase.restype = None
    set_phase.argtypes = [ctypes.c_void_p, ctypes.c_char_p]

    def install(invocation: Any, sink: list[tuple[int, str]]) -> Any:
        def receive(severity: int, text: int, length: int, _: int) -> None:
            sink.append((severity, ctypes.string_at(text, length).decode("utf-8", "replace")))
        callback = callback_type(receive)
        enable(invocation._inv_p, 0, callback, None)
        return callback

    def stop_after(invocation: Any, stage: str) -> None:
        set_phase(invocation._inv_p, stage.encode())

    return api, install, stop_after


# ---- failures

def _failure(source: bytes, flags: tuple[str, ...], diagnostics: list[tuple[int, str]]
             ) -> CompileError:
    errors = [text for severity, text in diagnostics if severity >= _ERROR]
    texts = errors or [text for _, text in diagnostics] or ["the compiler gave no reason"]
    where = next((w for w in map(_position, texts) if w), "")
    if where.startswith("source.mlir:"):
        where = ""  # our own module's text, of no use to the user
    return CompileError(texts, _keep(source, flags), _primitive(source, where), where)


def _position(text: str) -> str:
    found = _WHERE.match(text)
    return "" if found is None else f"{found['file']}:{found['line']}:{found['column']}"


def _primitive(source: bytes, where: str) -> str:
    """The name of the location at `where`: loc("sin"("user.py":14:7)) gives 'sin'."""
    if not where:
        return ""
    file, line, column = where.rsplit(":", 2)
    pattern = rf'loc\("([^"]+)"\("{re.escape(file)}":{line}:{column}'
    found = re.search(pattern, _text(source))
    if found is None:  # locations of larger modules are printed as aliases: #loc3 = loc("a.py":1:2)
        alias = re.search(rf'(#loc\d*) = loc\("{re.escape(file)}":{line}:{column}', _text(source))
        if alias is None:
            return ""
        found = re.search(rf'loc\("([^"]+)"\({alias[1]}\)', _text(source))
    return "" if found is None else found[1]


def _text(source: bytes) -> str:
    if source[:4] != b"ML\xefR":
        return source.decode("utf-8", "replace")
    from iree.compiler import ir
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        # a module that does not verify: MLIR's threads would wait for the lock of this one
        context.enable_multithreading(False)
        try:
            module = ir.Module.parse(source)
        except Exception as error:  # MLIR's own class; the module cannot be shown as text
            return f"// {error}\n// bytecode: {source.hex()}\n"
        return str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=16))


def _keep(source: bytes, flags: tuple[str, ...]) -> str:
    """Keep the program that failed, with the flags, for a report."""
    from calque.lowering.cache import cache_directory
    name = f"failed-{os.getpid()}-{next(_counter)}.mlir"
    for folder in (cache_directory() / "failed", Path(tempfile.gettempdir()) / "calque-failed"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            command = "// iree-compile " + " ".join(f"'{flag}'" for flag in flags)
            path.write_text(f"{command}\n{_text(source)}", "utf-8")
        except Exception:  # a report is a courtesy; the error itself must get out
            continue
        return str(path)
    return ""


def _message(diagnostics: Sequence[str], mlir_path: str, primitive: str, where: str) -> str:
    first = diagnostics[0].split("\n")[0] if diagnostics else ""
    lines = ["the compiler (IREE) rejected a program that calque wrote: " + _shorten(first)]
    place = " at ".join(part for part in (primitive and f"primitive {primitive}", where) if part)
    if place:
        lines.append(f"  In {place}.")
    kept = f" and attach {mlir_path}" if mlir_path else ""
    lines.append(f"  Fix: this is a fault of calque's, not of your program; please report it{kept}."
                 " Until then, write the expression at that place another way.")
    return "\n".join(lines)


def _shorten(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."


def _as_bytes(source: bytes | str) -> bytes:
    return source.encode() if isinstance(source, str) else source
