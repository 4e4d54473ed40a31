"""python -m calque.compat prog.py [args]; -m module [args]; -c code [args]; Python's other ways.

A program, a module and code run in this process.  What else Python takes (a prompt, a program on
stdin, -i, -W, -X) is its own: the process becomes that Python, which is told by the environment.
"""
from __future__ import annotations

import os
import runpy
import subprocess
import sys

import calque_as_jax

from calque.compat.modules import install

USAGE = """usage: python -m calque.compat [PROGRAM.py | -m MODULE | -c CODE | -] [ARGUMENTS]

Runs a program written for JAX: `import jax` gives calque, here and in child processes.
Without a program: a prompt.  Other options (-i, -W, -X, ...) are Python's."""


def main(argv: list[str]) -> int:
    first = argv[0] if argv else ""
    if first in ("-h", "--help"):
        print(USAGE)
        return 0
    kind = first if first in ("-m", "-c") else ""
    if kind and len(argv) < 2:
        print(f"python -m calque.compat: {kind} takes an argument.\n{USAGE}", file=sys.stderr)
        return 2
    if not kind and (not first or first.startswith("-")):
        _become_python(argv)
    if not kind and not os.path.exists(first):
        print(f"python -m calque.compat: there is no file {first}.\n  Fix: pass a program, "
              "-m MODULE or -c CODE.", file=sys.stderr)
        return 2
    install()
    if kind == "-c":
        sys.argv = ["-c", *argv[2:]]
        sys.path.insert(0, "")
        scope = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile(argv[1], "<string>", "exec"), scope)
    elif kind == "-m":
        sys.argv = argv[1:]
        sys.path.insert(0, "")
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
        runpy.run_path(first, run_name="__main__")
    return 0


def _become_python(argv: list[str]) -> None:
    environ = dict(os.environ)
    if environ.get(calque_as_jax.VARIABLE) in (None, "", "0"):
        environ[calque_as_jax.VARIABLE] = "1"
    calque_as_jax.for_children(environ, environ[calque_as_jax.VARIABLE])
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *flags, *argv], environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
