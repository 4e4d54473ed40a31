"""IREE's compiler in a process of its own, as a script: `python compiler_server.py FOLDER...`.

It reads pickled requests (number, source, flags, stage) from its standard input and writes pickled
answers (number, kind, value) to its standard output, in the order in which they are ready; each
request has a thread.  kind is 'done' (the bytes), 'failed' (diagnostics: pairs of severity and
text) or 'error' (an exception).  It ends when its input does.  FOLDERs hold the package
iree.compiler; nothing of calque is imported, and neither NumPy nor MLIR's bindings.
lowering/compiler_process.py is the other end.
"""
from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import signal
import sys
import threading
import types
from typing import Any


def load(folders: list[str]) -> Any:
    """IREE's Python API of its C interface, without the rest of the package (0.2 s)."""
    for name, parts in (("iree", ()), ("iree.compiler", ("compiler",))):
        if name in sys.modules:
            continue
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(f, "iree", *parts) for f in folders]
        sys.modules[name] = module
    from iree.compiler import api
    return api


def _collect(invocation: Any, sink: list[tuple[int, str]]) -> Any:
    """Put an invocation's diagnostics into a list: the Python API lacks it."""
    from iree.compiler.api import ctypes_dl
    callback_type = ctypes.CFUNCTYPE(
        None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    enable = ctypes_dl._dylib.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.restype = None
    enable.argtypes = [ctypes.c_void_p, ctypes.c_int, callback_type, ctypes.c_void_p]

    def receive(severity: int, text: int, length: int, _: int) -> None:
        sink.append((severity, ctypes.string_at(text, length).decode("utf-8", "replace")))
    callback = callback_type(receive)
    enable(invocation._inv_p, 0, callback, None)
    return callback


def _stop_after(invocation: Any, stage: str) -> None:
    from iree.compiler.api import ctypes_dl
    set_phase = ctypes_dl._dylib.ireeCompilerInvocationSetCompileToPhase
    set_phase.restype = None
    set_phase.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    set_phase(invocation._inv_p, stage.encode())


def run(api: Any, source: bytes, flags: tuple[str, ...], stage: str) -> tuple[str, Any]:
    """One compile: what is answered."""
    diagnostics: list[tuple[int, str]] = []
    with api.Session() as session:
        session.set_flags(*flags)
        with session.invocation() as invocation:
            callback = _collect(invocation, diagnostics)
            parsed = invocation.parse_source(api.Source.wrap_buffer(session, source))
            if parsed and stage:
                _stop_after(invocation, stage)
            if not (parsed and invocation.execute()):
                return "failed", diagnostics
            with api.Output.open_membuffer() as output:
                (invocation.output_ir if stage else invocation.output_vm_bytecode)(output)
                result = bytes(output.map_memory())
            del callback  # it had to live as long as the invocation could call it
    return "done", result


def main(folders: list[str]) -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    requests, answers = os.fdopen(0, "rb", closefd=False), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the compiler prints is no answer
    api, lock = load(folders), threading.Lock()

    def answer(number: int, source: bytes, flags: tuple[str, ...], stage: str) -> None:
        try:
            kind, value = run(api, source, flags, stage)
        except Exception as error:
            kind, value = "error", error
        with lock:
            pickle.dump((number, kind, value), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()

    while True:
        try:
            request = pickle.load(requests)
        except EOFError:  # the process that asks ended, perhaps killed
            shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
            os._exit(0)
        threading.Thread(target=answer, args=request, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])
