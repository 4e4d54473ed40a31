"""MLIR text or bytecode in, .vmfb bytes out.

`compile_module` compiles for a Target; `compile_to` stops at a stage and returns text (the dumps
of CALQUE_DUMP and the CLI).  Diagnostics are captured, not printed, and a failure is a
CompileError that knows the user's line and the primitive, read from MLIR locations.  The compiler
runs in a process of its own (compiler_process), started at first use: its crash is a CompileError,
too.  CALQUE_COMPILE=inside runs it here, to look at it with a debugger.
"""
from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calque.core import monitoring
from calque.lowering.compiler import branch_moves
from calque.lowering.compiler import process as compiler_process
from calque.lowering.compiler import server as compiler_server
from calque.lowering.compiler.folders import (
    LEAST_SPACE,
    cache_directory,
    free_space,
    home_directory,
    own_directory,
)

if TYPE_CHECKING:
    from calque.lowering.target.targets import Target

# Without the first, f64 programs are silently compiled as f32; without the third, sums are serial
# and inexact.  async-external gives every function a wait and a signal fence (runtime/executable).
MANDATORY = (
    "--iree-input-demote-f64-to-f32=false",
    "--iree-input-type=stablehlo",
    "--iree-execution-model=async-external",
    # Constants are computed at load: to do it earlier, IREE compiles them once more (a third of a
    # small program's time), with other bits than the target's, and fails on complex ones.
    "--iree-opt-const-eval=false",
    # What a producer and its consumer compute in one operation may fold to one value, given twice:
    # IREE then drops the second result of the dispatch and reads its first one in its place
    # (dropUnusedAndRedundantDispatchRegionResults notes the number of the result that is dropped,
    # not of the one it equals: tests/lowering/test_repeated_results.py).  In a dispatch they
    # become one loop all the same.
    "--iree-dispatch-creation-fuse-multi-use=false",
)
# IREE reads a library of ukernels into every program, which only its tiling of data calls.
_CPU_FLAGS = ("--iree-llvmcpu-reassociate-fp-reductions", "--iree-llvmcpu-enable-ukernels=none")

# What the host may step through or choose among (in a kernel it costs a look at the code only).
_STEPS = (b"while", b"stablehlo.case", b"stablehlo.if", b"scf.for", b"scf.if", b"scf.index_switch",
          b"func.call")

STAGES = compiler_server.STAGES
SHORTCUTS = compiler_server.SHORTCUTS
_short_counts: Counter[str] = Counter()

_ERROR = 2  # iree_compiler_diagnostic_severity_t
_WHERE = re.compile(r'^(?:loc\()?"?(?P<file>[^\s":()]+)"?:(?P<line>\d+):(?P<column>\d+)')
_counter = itertools.count()


class CompileError(RuntimeError):
    """IREE could not compile a program.

    Attributes:
      diagnostics: what the compiler said, one text each.
      mlir_path: the program, kept for a report ('' if it could not be written).
      primitive, where: the primitive and the user's 'file:line:column', '' where unknown.
    """

    def __init__(self, diagnostics: Sequence[str], mlir_path: str = "", primitive: str = "",
                 where: str = "", fix: str = "") -> None:
        self.diagnostics = tuple(d for d in diagnostics if d)
        self.mlir_path = mlir_path
        self.primitive = primitive
        self.where = where
        super().__init__(_message(self.diagnostics, mlir_path, primitive, where, fix))


def all_flags(target: Target, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Every flag of a compile, in order (the cache's key covers them all)."""
    own: tuple[str, ...] = _CPU_FLAGS if target.backend == "llvm-cpu" else ()
    if (own and target.arch == "x86_64" and os.environ.get("CALQUE_SHORTCUTS") != "0"
            and not any("link" in option for option in options)):  # (who links otherwise)
        own = (*own, SHORTCUTS)
    return (*target.flags(), *MANDATORY, *own, *options)


def shortcut_counts() -> dict[str, int]:
    """How many programs this process compiled by the shortcut ('taken'), and how many not, by
    reason; and how many IREE linked (see CALQUE_SHORTCUTS in docs/first_call.md)."""
    return dict(_short_counts)


def compile_module(source: bytes | str, target: Target, options: tuple[str, ...] = (), *,
                   careful: bool = False) -> bytes:
    """The .vmfb of an MLIR module for a target; CompileError with the diagnostics on failure.

    `careful` lets the compiler's verifier look at the program after every pass.
    """
    module = _as_bytes(source)
    vmfb = run_compiler(module, all_flags(target, options), careful=careful)
    if not any(word in module for word in _STEPS):  # (an expression takes 10 ms for each MB)
        return vmfb
    try:
        return branch_moves.mend(vmfb)
    except branch_moves.Tangled:
        flags = all_flags(target, options)
        raise CompileError(["a loop's values are exchanged in registers that IREE's code "
                            "overwrites"], _keep(module, flags)) from None


def compile_to(source: bytes | str, target: Target, stage: str,
               options: tuple[str, ...] = ()) -> str:
    """The module as text after a stage of the compiler, one of `STAGES`."""
    if stage not in STAGES:
        raise ValueError(f"unknown stage {stage!r}.\n  Fix: choose one of {', '.join(STAGES)}.")
    text = run_compiler(_as_bytes(source), all_flags(target, options), stage)
    return text.decode("utf-8", "replace")


def expect(target: Target) -> None:
    """A compile for a target is sure to come."""
    if SHORTCUTS in all_flags(target) and os.environ.get("CALQUE_COMPILE") != "inside":
        compiler_process.ahead()


def run_compiler(source: bytes, flags: tuple[str, ...], stage: str = "", *,
                 careful: bool = False) -> bytes:
    """What IREE makes of a module with these flags, from the compiler's process."""
    if os.environ.get("CALQUE_COMPILE") == "inside" or not compiler_process.possible():
        phases: Any = []
        kind, value = compiler_server.run(_inside(), source, flags, stage, phases, careful)
        printed = ""
    else:
        try:
            kind, value, printed, phases = _request(source, flags, stage, careful)
        except compiler_process.Crashed as crash:
            raise _crashed(source, flags, crash) from None
    for name, start, end in phases:
        monitoring.past(name, "compile", start, end)
    if kind == "failed":
        raise _failure(source, flags, value, printed)
    if kind == "again":
        _say_long(f"linked by IREE: {value}")
        return run_compiler(source, compiler_server.without_shortcuts(flags))
    if kind == "short":
        _short_counts["taken"] += 1
    elif kind == "long":
        value, reason = value
        _say_long(reason)
    return bytes(value)


def _request(source: bytes, flags: tuple[str, ...], stage: str, careful: bool
             ) -> tuple[str, Any, str, Sequence[compiler_server.Phase]]:
    """A compile in the compiler's process; after a fault of it, once more with its verifier on."""
    try:
        return compiler_process.request(source, flags, stage, careful)
    except compiler_process.Crashed as crash:
        if SHORTCUTS in flags:
            _say_long(f"the compiler crashed ({crash.signal})")
            return _request(source, compiler_server.without_shortcuts(flags), stage, careful)
        if careful or crash.signal not in ("SIGSEGV", "SIGABRT") or _is_full(crash):
            raise
    return compiler_process.request(source, flags, stage, careful=True)


def _say_long(reason: str) -> None:
    _short_counts[reason] += 1
    if "compile" in os.environ.get("CALQUE_LOG", ""):
        print(f"calque: not by the shortcut: {reason}", file=sys.stderr)


@functools.cache
def _inside() -> Any:
    """The compiler in this process, where no other can be started: a crash of it is ours."""
    return compiler_server.load(compiler_process.folders())


@functools.cache
def compiler_version() -> str:
    """Version and revision of the compiler, for cache keys and artifacts (loads no library)."""
    from importlib.metadata import version
    return version("iree-base-compiler")


# ---- failures

def _failure(source: bytes, flags: tuple[str, ...], diagnostics: list[tuple[int, str]],
             printed: str = "") -> CompileError:
    errors = [text for severity, text in diagnostics if severity >= _ERROR]
    texts = errors or [text for _, text in diagnostics] or ["the compiler gave no reason"]
    where = next((w for w in map(_position, texts) if w), "")
    if where.startswith("source.mlir:"):
        where = ""  # our own module's text, of no use to the user
    if printed:  # by the linker
        texts = [*texts, printed]
    return CompileError(texts, _keep(source, flags), _primitive(source, where), where)


def _crashed(source: bytes, flags: tuple[str, ...], crash: compiler_process.Crashed
             ) -> CompileError:
    """The compiler's process died: of a fault, or for want of disk or memory."""
    said = crash.said.splitlines()[-1] if crash.said else ""
    if _is_full(crash):
        return CompileError(
            [f"there is no space left in {crash.folder}, where the compiler links what it makes",
             said], fix=f"free some space in {crash.folder}, or name another folder in TMPDIR")
    if crash.signal == "SIGKILL" or "out of memory" in crash.said.lower():
        return CompileError(["the compiler ran out of memory", said],
                            fix="close other programs, or compile a smaller program at a time")
    return CompileError([f"the compiler crashed ({crash.signal})", said], _keep(source, flags))


def _is_full(crash: compiler_process.Crashed) -> bool:
    return "No space left on device" in crash.said or free_space(crash.folder) < LEAST_SPACE


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
    name = f"failed-{os.getpid()}-{next(_counter)}.mlir"
    above = own_directory(cache_directory())
    for folder in (above and above / "failed", home_directory() / "failed"):
        if folder is None or own_directory(folder) is None:
            continue
        try:
            path = folder / name
            command = "// iree-compile " + " ".join(f"'{flag}'" for flag in flags)
            path.write_text(f"{command}\n{_text(source)}", "utf-8")
        except Exception:  # a report is a courtesy; the error itself must get out
            continue
        return str(path)
    return ""


def _message(diagnostics: Sequence[str], mlir_path: str, primitive: str, where: str,
             fix: str) -> str:
    first = diagnostics[0].split("\n")[0] if diagnostics else ""
    if fix:
        return f"a program cannot be compiled: {first}.\n  Fix: {fix}."
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
