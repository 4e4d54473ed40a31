"""The short way from LLVM's dialect to a .vmfb, of CPU programs that are dispatches in a row.

IREE's last three stages take two thirds of a small program's compile: they write the host's part,
which is the same for all of these (host_module.py), compile libraries that the linker drops, and
start a linker (elf_link.py).  `finish` does without; what it does not take goes on as ever.
It is for programs that are kernels of ours (stream_module.py), and with CALQUE_SHORT_WAY=1 for any:
docs/first_call.md has its figures.  It imports nothing of calque: the compiler's process reads it.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

_COUNT = re.compile(r"(%\S+) = arith\.constant (\d+) : index")
_RETURN = re.compile(r"hal\.return (%\S+), (%\S+), (%\S+) :")
_pointer = ctypes.c_void_p


class _Handle(ctypes.Structure):
    _fields_ = [("ptr", _pointer)]  # MlirOperation, MlirBlock, MlirAttribute, ...


class _Text(ctypes.Structure):
    _fields_ = [("data", _pointer), ("length", ctypes.c_size_t)]  # MlirStringRef


_SINK = ctypes.CFUNCTYPE(None, _Text, _pointer)


def _typed(library: Any) -> None:
    for name, result, *arguments in (
            ("mlirOperationClone", _Handle, _Handle), ("mlirOperationDestroy", None, _Handle),
            ("mlirOperationRemoveFromParent", None, _Handle),
            ("mlirOperationPrint", None, _Handle, _SINK, _pointer),
            ("mlirOperationGetName", _Handle, _Handle), ("mlirIdentifierStr", _Text, _Handle),
            ("mlirOperationGetRegion", _Handle, _Handle, ctypes.c_ssize_t),
            ("mlirRegionGetFirstBlock", _Handle, _Handle),
            ("mlirBlockGetFirstOperation", _Handle, _Handle),
            ("mlirOperationGetNextInBlock", _Handle, _Handle),
            ("mlirOperationGetContext", _Handle, _Handle),
            ("mlirOperationGetAttributeByName", _Handle, _Handle, _Text),
            ("mlirOperationSetAttributeByName", None, _Handle, _Text, _Handle),
            ("mlirOperationRemoveAttributeByName", ctypes.c_bool, _Handle, _Text),
            ("mlirAttributePrint", None, _Handle, _SINK, _pointer),
            ("mlirAttributeParseGet", _Handle, _Handle, _Text)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


class Module:
    """A module in the compiler, by MLIR's C interface."""

    def __init__(self, library: Any, operation: Any) -> None:
        self.library, self.operation = library, operation

    def children(self, operation: Any) -> Iterator[Any]:
        """The operations in the first block of an operation."""
        region = self.library.mlirOperationGetRegion(operation, 0)
        block = self.library.mlirRegionGetFirstBlock(region)
        inner = self.library.mlirBlockGetFirstOperation(block)
        while inner.ptr:
            following = self.library.mlirOperationGetNextInBlock(inner)
            yield inner
            inner = following

    def named(self, operation: Any, *names: str) -> Iterator[Any]:
        for inner in self.children(operation):
            if self.name(inner) in names:
                yield inner

    def name(self, operation: Any) -> str:
        text = self.library.mlirIdentifierStr(self.library.mlirOperationGetName(operation))
        return ctypes.string_at(text.data, text.length).decode()

    def printed(self, value: Any, how: str = "mlirOperationPrint") -> str:
        parts: list[bytes] = []
        sink = _SINK(lambda text, _: parts.append(ctypes.string_at(text.data, text.length)))
        getattr(self.library, how)(value, sink, None)
        return b"".join(parts).decode()

    def counts(self, executable: Any) -> dict[str, tuple[int, int, int]]:
        """Workgroups of each function of an executable, where they do not depend on the call."""
        found = {}
        for variant in self.named(executable, "hal.executable.variant"):
            for export in self.named(variant, "hal.executable.export"):
                text = self.printed(export)
                numbers = dict(_COUNT.findall(text))
                last = _RETURN.search(text)
                name = re.search(r"@(\w+)", text)
                if last is None or name is None or any(v not in numbers for v in last.groups()):
                    raise ValueError("workgroups that depend on the call")
                x, y, z = (int(numbers[v]) for v in last.groups())
                found[name[1]] = x, y, z
        return found

    def make_static(self, executable: Any, path: str) -> None:
        """Let an executable be compiled into an object file, and be kept without a user."""
        self.library.mlirOperationRemoveAttributeByName(executable, _text("sym_visibility"))
        for variant in self.named(executable, "hal.executable.variant"):
            target = self.library.mlirOperationGetAttributeByName(variant, _text("target"))
            text = self.printed(target, "mlirAttributePrint").replace(
                ", {", f', {{link_embedded = false, link_static = true, '
                f'static_library_output = "{path}", ', 1)
            context = self.library.mlirOperationGetContext(variant)
            other = self.library.mlirAttributeParseGet(context, _text(text))
            if not other.ptr:
                raise ValueError("no target for static libraries")
            self.library.mlirOperationSetAttributeByName(variant, _text("target"), other)


def _text(value: str) -> _Text:
    data = value.encode()
    text = _Text(ctypes.cast(ctypes.c_char_p(data), _pointer), len(data))
    text.kept = data  # (it has to live as long as what points to it)
    return text


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder of its own for one object file.  (To import tempfile takes 5 ms.)"""
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"calque-short-{os.urandom(8).hex()}")
    os.mkdir(folder, 0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def finish(api: Any, library: Any, session: Any, module: Any, advance: Callable[..., bool],
           parts: Any, link: Any) -> tuple[bytes | None, str]:
    """(the .vmfb, '') of a module after `executable-targets`, or (None, why not).

    Args:
      module: an MlirOperation, which is left as it is.
      advance: runs the stage between two phases: (library, handle, before, after).
      parts, link: the modules host_module and elf_link.
    """
    _typed(library)
    copy = Module(library, library.mlirOperationClone(_Handle(module.ptr)))
    owned = True
    try:
        executables = list(copy.named(copy.operation, "hal.executable"))
        functions = list(copy.named(copy.operation, "util.func"))
        others = {copy.name(op) for op in copy.children(copy.operation)} - {
            "hal.executable", "util.func", "util.global"}
        if len(functions) != 1 or others or not executables:
            return None, ", ".join(sorted(others)) or "several functions"
        if len(list(copy.named(copy.operation, "util.global"))) != 1:
            return None, "constants"
        host = parts.read(copy.printed(functions[0]))
        counts: dict[str, tuple[int, int, int]] = {}
        for executable in executables:
            counts |= copy.counts(executable)
            if any(copy.library.mlirOperationGetAttributeByName(v, _text("objects")).ptr
                   for v in copy.named(executable, "hal.executable.variant")):
                return None, "object files"
        with _folder() as folder:
            path = os.path.join(folder, "dispatches.o")
            for executable in executables:
                copy.make_static(executable, path)
            library.mlirOperationRemoveFromParent(functions[0])
            library.mlirOperationDestroy(functions[0])
            with session.invocation() as invocation:
                owned = False
                if not library.ireeCompilerInvocationImportStealModule(
                        invocation._inv_p, type(module)(copy.operation.ptr)) or not advance(
                        library, invocation._inv_p, b"executable-targets", b"hal"):
                    return None, "the dispatches cannot be compiled by themselves"
                with api.Output.open_membuffer() as output:
                    invocation.output_ir(output)
                    names = re.findall(r"hal\.executable public @(\w+)",
                                       bytes(output.map_memory()).decode())
            if len(names) != 1:
                return None, f"{len(names)} executables"
            with open(path, "rb") as file:
                elf = link.link(file.read(), f"{names[0]}_library_query")
    except (parts.Unknown, link.Refused, ValueError, KeyError, OSError) as error:
        return None, f"{type(error).__name__}: {error}"
    finally:
        if owned:
            library.mlirOperationDestroy(copy.operation)
    with session.invocation() as invocation:
        source = api.Source.wrap_buffer(session, parts.text(host, counts, elf).encode())
        if not (invocation.parse_source(source)
                and advance(library, invocation._inv_p, b"vm", b"end")):
            return None, "the host's part cannot be compiled"
        with api.Output.open_membuffer() as output:
            invocation.output_vm_bytecode(output)
            return bytes(output.map_memory()), ""
