"""Short ways from LLVM's dialect to a .vmfb, of programs for x86-64 CPUs.

IREE compiles a C library into each program, which the linker drops, and starts a linker: a fifth of
a small program's compile.  `link_here` lets it write an object file, and links that (elf_link.py).
The host's part takes another fifth, and is the same for all programs that are dispatches in a row:
`finish` does without, too (host_module.py), for those that are kernels of ours (stream_module.py).
What they do not take is compiled as ever; docs/first_call.md has figures.  It imports nothing of
calque: the compiler's process reads it.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

_TARGET = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {'
_OBJECTS = re.compile(r"\[(.*)\]")
_PATH = re.compile(r'#hal\.executable\.object<\{path = "([^"]*)"\}>')
_pointer = ctypes.c_void_p


class _Handle(ctypes.Structure):
    _fields_ = [("ptr", _pointer)]  # MlirOperation, MlirBlock, MlirAttribute, ...


class _Text(ctypes.Structure):
    _fields_ = [("data", _pointer), ("length", ctypes.c_size_t)]  # MlirStringRef


_SINK = ctypes.CFUNCTYPE(None, _Text, _pointer)


def _typed(library: Any) -> None:
    for name, result, *arguments in (
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

    def attribute(self, operation: Any, name: str) -> str:
        """An attribute's text, '' where there is none."""
        found = self.library.mlirOperationGetAttributeByName(operation, _text(name))
        parts: list[bytes] = []
        if found.ptr:
            sink = _SINK(lambda text, _: parts.append(ctypes.string_at(text.data, text.length)))
            self.library.mlirAttributePrint(found, sink, None)
        return b"".join(parts).decode()

    def set_attribute(self, operation: Any, name: str, text: str) -> None:
        context = self.library.mlirOperationGetContext(operation)
        value = self.library.mlirAttributeParseGet(context, _text(text))
        if not value.ptr:
            raise ValueError(f"no attribute {name}")
        self.library.mlirOperationSetAttributeByName(operation, _text(name), value)

    def variants(self) -> list[Any]:
        return [variant for executable in self.named(self.operation, "hal.executable")
                for variant in self.named(executable, "hal.executable.variant")]

    def make_static(self, path: str) -> list[str]:
        """Let the dispatches be compiled into an object file; the names of those that they need."""
        names: dict[str, None] = {}
        for variant in self.variants():
            if objects := self.attribute(variant, "objects"):
                names |= dict.fromkeys(_objects(objects))
                self.library.mlirOperationRemoveAttributeByName(variant, _text("objects"))
            target = self.attribute(variant, "target")
            if not target.startswith(_TARGET):
                raise ValueError("another target")
            self.set_attribute(
                variant, "target", f"{_TARGET}link_embedded = false, link_static = true, "
                f'static_library_output = "{path}", {target.removeprefix(_TARGET)}')
        return list(names)


def _objects(text: str) -> list[str]:
    """The paths in an attribute `objects`."""
    found = _OBJECTS.fullmatch(text)
    paths = found[1].split(", ") if found else []
    names = [m[1] for m in map(_PATH.fullmatch, paths) if m is not None]
    if not names or len(names) != len(paths) or any("\\" in n for n in names):
        raise ValueError("object files of another kind")
    return names


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


def link_here(library: Any, invocation: Any, advance: Callable[..., bool], link: Any) -> str:
    """The stage `hal` of an invocation, whose dispatches are linked here; or why not, and then the
    invocation is of no use any more."""
    try:
        with _objects_of(library, invocation, advance, link) as (module, found):
            if found is not None:
                binary, elf = found
                module.set_attribute(binary, "format", '"embedded-elf-x86_64"')
                module.set_attribute(binary, "mime_type", '"application/x-elf"')
                module.set_attribute(binary, "data",
                                     f'dense<"0x{elf.hex().upper()}"> : vector<{len(elf)}xi8>')
    except Exception as error:  # whatever it is, IREE links
        return f"{type(error).__name__}: {error}"
    return ""


@contextlib.contextmanager
def _objects_of(library: Any, invocation: Any, advance: Callable[..., bool],
                link: Any) -> Iterator[tuple[Module, tuple[Any, bytes] | None]]:
    """The module after the stage `hal`, and the operation of its dispatches (if there are any) with
    what they are, linked with the object files that they need."""
    _typed(library)
    handle = invocation._inv_p
    taken = library.ireeCompilerInvocationExportStealModule(handle)
    try:
        with _folder() as folder:
            path = os.path.join(folder, "dispatches.o")
            module = Module(library, _Handle(taken.ptr))
            some = bool(module.variants())
            needed = module.make_static(path)
            library.ireeCompilerInvocationImportStealModule(handle, taken)
            taken = None
            if not advance(library, handle, b"executable-targets", b"hal"):
                raise ValueError("the dispatches are no object file")
            taken = library.ireeCompilerInvocationExportStealModule(handle)
            module = Module(library, _Handle(taken.ptr))
            yield module, _linked_of(module, [path, *needed], link) if some else None
    finally:
        if taken is not None:
            library.ireeCompilerInvocationImportStealModule(handle, taken)


def _linked_of(module: Module, paths: list[str], link: Any) -> tuple[Any, bytes]:
    """The dispatches' operation, and their object file linked with others."""
    found = [(executable, binary) for executable in module.named(module.operation, "hal.executable")
             for binary in module.named(executable, "hal.executable.binary")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} executables")
    (executable, binary), = found
    return binary, _linked(paths, module.attribute(executable, "sym_name").strip('"'), link)


def _linked(paths: list[str], name: str, link: Any) -> bytes:
    """The shared object of object files, of which the first has the executable of this name."""
    files = []
    for path in paths:
        with open(path, "rb") as file:
            files.append(file.read())
    elf: bytes = link.link(files, f"{name}_library_query")
    return elf


def linked(library: Any, invocation: Any, advance: Callable[..., bool], link: Any) -> bytes:
    """The shared object of an invocation after `executable-targets` that has dispatches alone.

    Args:
      advance: runs the stage between two phases: (library, handle, before, after).
      link: the module elf_link.
    """
    with _objects_of(library, invocation, advance, link) as (_, found):
        if found is None:
            raise ValueError("no dispatches")
        return found[1]


def finish(api: Any, library: Any, session: Any, advance: Callable[..., bool],
           written: bytes) -> bytes:
    """The .vmfb of a module in the VM dialect, around dispatches that are linked."""
    with session.invocation() as host:
        if not (host.parse_source(api.Source.wrap_buffer(session, written))
                and advance(library, host._inv_p, b"vm", b"end")):
            raise ValueError("the host's part cannot be compiled")
        with api.Output.open_membuffer() as output:
            host.output_vm_bytecode(output)
            return bytes(output.map_memory())
