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

_COUNT = re.compile(r"(%\S+) = arith\.constant (\d+) : index")
_RETURN = re.compile(r"hal\.return (%\S+), (%\S+), (%\S+) :")
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

    def attribute(self, operation: Any, name: str) -> str:
        """An attribute's text, '' where there is none."""
        found = self.library.mlirOperationGetAttributeByName(operation, _text(name))
        return self.printed(found, "mlirAttributePrint") if found.ptr else ""

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
                return "the dispatches are no object file"
            taken = library.ireeCompilerInvocationExportStealModule(handle)
            if some:
                _put(Module(library, _Handle(taken.ptr)), [path, *needed], link)
    except Exception as error:  # whatever it is, IREE links
        return f"{type(error).__name__}: {error}"
    finally:
        if taken is not None:
            library.ireeCompilerInvocationImportStealModule(handle, taken)
    return ""


def _put(module: Module, paths: list[str], link: Any) -> None:
    """Link the dispatches' object file with others, in the place of its name."""
    found = [(executable, binary) for executable in module.named(module.operation, "hal.executable")
             for binary in module.named(executable, "hal.executable.binary")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} executables")
    (executable, binary), = found
    name = module.attribute(executable, "sym_name").strip('"')
    elf = _linked(paths, name, link)
    module.set_attribute(binary, "format", '"embedded-elf-x86_64"')
    module.set_attribute(binary, "mime_type", '"application/x-elf"')
    module.set_attribute(binary, "data",
                         f'dense<"0x{elf.hex().upper()}"> : vector<{len(elf)}xi8>')


def _linked(paths: list[str], name: str, link: Any) -> bytes:
    """The shared object of object files, of which the first has the executable of this name."""
    files = []
    for path in paths:
        with open(path, "rb") as file:
            files.append(file.read())
    elf: bytes = link.link(files, f"{name}_library_query")
    return elf


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
            # (it is kept without a user)
            library.mlirOperationRemoveAttributeByName(executable, _text("sym_visibility"))
        with _folder() as folder:
            path = os.path.join(folder, "dispatches.o")
            needed = copy.make_static(path)
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
            elf = _linked([path, *needed], names[0], link)
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
