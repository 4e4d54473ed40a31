"""python -m calque.compat prog.py [args]; -m module [args]; -c code [args]."""
from __future__ import annotations

import os
import runpy
import sys

from calque.compat.modules import install

USAGE = """usage: python -m calque.compat (PROGRAM.py | -m MODULE | -c CODE) [ARGUMENTS]

Runs a program written for JAX: `import jax` gives calque."""


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    kind = argv[0] if argv[0] in ("-m", "-c") else ""
    if kind and len(argv) < 2:
        print(f"python -m calque.compat: {kind} takes an argument.\n{USAGE}", file=sys.stderr)
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
        if not os.path.exists(argv[0]):
            print(f"python -m calque.compat: there is no file {argv[0]}.\n  Fix: pass a program, "
                  "-m MODULE or -c CODE.", file=sys.stderr)
            return 2
        sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
        runpy.run_path(argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
