"""Writes docs/options.md: every option and environment variable that calque reads.

    python docs/scripts/options.py

Options come from calque.core.config, variables from GROUPS below; `unlisted` finds those that
the sources read and the list lacks (tests/docs/test_site.py).
"""
from __future__ import annotations

import re
from pathlib import Path

from calque.core.config import OPTIONS
from calque.core.config_of_jax import TAKEN

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "options.md"
GROUPS = {
    "The cache of compiled programs: its folder and size": {
        "CALQUE_CACHE": "`0` keeps no compiled programs on disk",
        "CALQUE_CACHE_DIR": "the folder of the cache; default `~/.cache/calque`",
        "CALQUE_CACHE_SIZE": (
            "the size of the cache, at most: `500M`, `2G` (the default) or a number of bytes"),
        "CALQUE_CPU_THREADS": (
            "worker threads of the CPU; default one a core. Also read by the C++ library"),
        "CALQUE_AS_JAX": (
            "`1`: `import jax` gives calque, in child processes too; `quiet`: the same without "
            "the line that says so; `0`: never ([run a JAX program](your_jax_code_here.md))"),
    },
    "Seeing what happens": {
        "CALQUE_LOG": (
            "words, separated by commas. `compile`: a line for each trace and each compile, and"
            " why; `plan`: how each program is compiled, as `calque explain` prints it"),
        "CALQUE_DUMP": (
            "a folder: each program is written there as traced text, StableHLO and artifact"),
        "CALQUE_TRACEBACK": "`full` shows calque's own frames in tracebacks",
    },
    "Looking for a fault": {
        "CALQUE_CHECK": (
            "`1`, before the import: programs are checked after each pass; processes compare "
            "their programs at each message"),
        "CALQUE_OFF": (
            "parts to leave out, separated by commas: `numpy`, `plans`, `kernels` and others "
            "([find a wrong value](debugging.md))"),
        "CALQUE_FFI_GUARD": (
            "`1`: kernels of yours in C run in a process of their own, with pages around their "
            "arrays that must not be touched ([kernels](your_own_operation.md))"),
        "CALQUE_SHORTCUTS": (
            "`0`: IREE's linker is used for each dispatch, as before ([first "
            "calls](first_call.md))"),
        "CALQUE_COMPILE": "`inside`: the compiler runs in this process, for a debugger",
    },
    "The C++ library": {
        "CALQUE_PYTHON": "the Python that the hosting backend embeds ([C++](cpp.md))",
    },
}
VARIABLES = {name: what for group in GROUPS.values() for name, what in group.items()}
OTHERS = {
    "XLA_FLAGS": "of it `--xla_force_host_platform_device_count=N` is read: logical CPU devices",
    "CUDA_VISIBLE_DEVICES": "which cards the driver shows",
    "CC": "the C compiler of your own kernels",
    "XDG_CACHE_HOME": "the folder of caches, where `CALQUE_CACHE_DIR` is not set",
}
# names of macros, and what a build sets
_NOT_READ = ("CALQUE_C_API", "CALQUE_NOEXCEPT", "CALQUE_VERSION", "CALQUE_CALQUE_H_",
             "CALQUE_PYTHON_EXECUTABLE", "CALQUE_BUILDING", "CALQUE_IREE_API_FITS",
             "CALQUE_BACKEND")


def unlisted() -> list[str]:
    """CALQUE_* names in the sources that the page has neither as a variable nor as an option."""
    known = {*VARIABLES, *_NOT_READ, *(name.upper() for name in OPTIONS)}
    found = set()
    for folder in ("frontend/calque", "frontend/calque_cli", "frontend/calque_as_jax", "lowering",
                   "runtime"):
        for kind in ("*.py", "*.cc"):
            for path in (ROOT / folder).rglob(kind):
                found |= set(re.findall(r"\bCALQUE_[A-Z_]+[A-Z]\b", path.read_text()))
    return sorted(found - known)


def _shown(value: object) -> str:
    return "" if value is None or value == "" else f"`{value}`"


def page() -> str:
    lines = ["# Options and environment variables", "",
             "Made by `python docs/scripts/options.py`.", "",
             'An option is set in a program by `calque.config.update("NAME", value)`, in the '
             "environment by its name in capitals (`JAX_ENABLE_X64=1`), and many for a block of "
             "lines: `with calque.enable_x64(True):`. Its names and meanings are JAX's, but for "
             "those that begin with `calque`.", "",
             "| option | default | what it does | values |", "|---|---|---|---|"]
    for o in sorted(OPTIONS.values(), key=lambda o: (o.name.startswith("calque"), o.name)):
        if o.name not in TAKEN and not o.name.startswith("user_context_"):  # (of this process)
            values = ", ".join(f"`{c}`" for c in o.choices) or {"bool": "true, false",
                                                                "int": "a number"}.get(o.kind, "")
            lines.append(f"| `{o.name}` | {_shown(o.default)} | {o.help} | {values} |")
    lines += ["", "## Environment variables", ""]
    for title, group in GROUPS.items():
        lines += [f"### {title}", "", "| variable | what it does |", "|---|---|",
                  *(f"| `{name}` | {what} |" for name, what in group.items()), ""]
    lines += ["### Of others", "", "| variable | what it does |", "|---|---|",
              *(f"| `{name}` | {what} |" for name, what in OTHERS.items()), "",
              "## Options of JAX's that have no effect", "",
              "Scripts that set them run. Where JAX would do something else for it, a warning "
              "says so once.", "",
              "| option | instead |", "|---|---|",
              *(f"| `{name}` | {what} |" for name, (_, what) in sorted(TAKEN.items()) if what), "",
              "Without any effect on results: "
              + ", ".join(f"`{name}`" for name, (_, what) in sorted(TAKEN.items()) if not what)
              + "."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
