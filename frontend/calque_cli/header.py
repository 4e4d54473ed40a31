"""calque header: a C++ header with the entry points of an artifact as typed structs.

Start reading at `header_of`.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from calque.runtime.aot import ArgumentRecord, FunctionRecord, read_records
from calque_cli.report import UsageError

_TYPES = {"bool": "bool", "int8": "std::int8_t", "int16": "std::int16_t", "int32": "std::int32_t",
          "int64": "std::int64_t", "uint8": "std::uint8_t", "uint16": "std::uint16_t",
          "uint32": "std::uint32_t", "uint64": "std::uint64_t", "float16": "calque::float16",
          "bfloat16": "calque::bfloat16", "float32": "float", "float64": "double",
          "complex64": "std::complex<float>", "complex128": "std::complex<double>"}
_WORDS = frozenset([
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char",
    "class", "const", "constexpr", "continue", "decltype", "default", "delete", "do", "double",
    "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "nullptr",
    "operator", "or", "private", "protected", "public", "register", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try",
    "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "while", "xor", "module", "session", "state"])

Fields = list[tuple[str, str, str]]  # type, name, what it is


def header_of(path: Path) -> str:
    """The text of the header of an artifact."""
    first: dict[str, list[FunctionRecord]] = {}
    for record in read_records(path):
        first.setdefault(record.name, []).append(record)
    space = _name(path.stem)
    leaves = [r for forms in first.values() for r in forms[:1]
              if r.state is not None and r.state.initial]
    called = [forms for forms in first.values() if not (
        forms[0].state is not None and forms[0].state.initial)]
    lines = [f"// Made by `calque header {path.name}`: its entry points, typed.",
             "#pragma once", "", "#include <calque/runtime.hpp>", "#include <calque/typed.hpp>", "",
             f"namespace {space} {{", ""]
    for forms in called:
        arguments, results = _fields(forms)
        lines += [f"// {forms[0].signature()}" if len(forms) == 1 else
                  f"// {forms[0].name}, compiled for several sizes"]
        lines += _struct(f"{_camel(forms[0].name)}Arguments", arguments)
        lines += _struct(f"{_camel(forms[0].name)}Results", results)
    lines += ["class Model {", " public:",
              f'  explicit Model(const std::string& path = "{path.name}",',
              "                 const calque::Device& device = calque::Device::open(),",
              '                 const std::string& parameters = "")',
              "      : Model(calque::Module::load(path, device, parameters)) {}"]
    if leaves:
        lines += ["  // Another state over a module that is loaded.",
                  "  explicit Model(const calque::Module& loaded) : session(loaded) {}", ""]
    else:
        functions = ", ".join(f'{_name(f[0].name)}_(loaded["{f[0].name}"])' for f in called)
        lines += [f"  explicit Model(const calque::Module& loaded) : {functions} {{}}", ""]
    for forms in called:
        lines += _method(forms, bool(leaves))
    if leaves:
        state = leaves[0].state
        assert state is not None
        lines += ["", "  // Names of the state's leaves, for session.read and session.write.",
                  "  struct State {"]
        lines += [f"    static constexpr const char* {field} = {_quoted(name)};  // "
                  f"{leaves[0].results[i]}"
                  for (i, name), field in zip(
                      state.results.items(), _unique(list(state.results.values())), strict=True)]
        lines += ["  };", "", "  calque::Session session;"]
    else:
        lines += ["", " private:", *[f"  calque::Function {_name(f[0].name)}_;" for f in called]]
    return "\n".join([*lines, "};", "", f"}}  // namespace {space}", ""])


def _fields(forms: Sequence[FunctionRecord]) -> tuple[Fields, Fields]:
    """The fields of a function's own arguments and results."""
    made = []
    for side in ("args", "results"):
        own = [[a for i, a in enumerate(getattr(r, side)) if r.state is None
                or i not in getattr(r.state, side)] for r in forms]
        if len({len(o) for o in own}) != 1:
            raise UsageError(f"the forms of {forms[0].name} have other numbers of {side}.",
                             "compile them under names of their own.")
        names = _unique([a.path or "result" for a in own[0]],
                        "result" if side == "results" else "")
        made.append([(_type([o[k] for o in own]), name, str(own[0][k]))
                     for k, name in enumerate(names)])
    return made[0], made[1]


def _type(forms: Sequence[ArgumentRecord]) -> str:
    a = forms[0]
    if str(a.dtype) not in _TYPES:
        return "calque::Array"
    sizes = ["-1" if not isinstance(d, int) or any(f.shape[i:i + 1] != (d,) for f in forms)
             else str(d) for i, d in enumerate(a.shape)]
    return f"calque::Typed<{', '.join([_TYPES[str(a.dtype)], *sizes])}>"


def _struct(name: str, fields: Fields) -> list[str]:
    return [f"struct {name} {{", *[f"  {t} {n};  // {what}" for t, n, what in fields], "};", ""]


def _method(forms: Sequence[FunctionRecord], stateful: bool) -> list[str]:
    name, camel = forms[0].name, _camel(forms[0].name)
    arguments, results = _fields(forms)
    given = ", ".join(f"arguments.{n}" for _, n, _ in arguments)
    call = (f'session("{name}"{", " if given else ""}{given})' if stateful
            else f"{_name(name)}_({given})")
    unused = "" if arguments else " = {}"
    taken = ", ".join(f"results[{i}]" for i in range(len(results)))
    return [f"  {camel}Results {_name(name)}([[maybe_unused]] const {camel}Arguments& "
            f"arguments{unused}) {{",
            f"    [[maybe_unused]] const auto results = {call};", f"    return {{{taken}}};", "  }"]


def _name(text: str) -> str:
    """An identifier: params['w'] is params_w."""
    made = re.sub(r"\W+", "_", text).strip("_") or "value"
    if made[0].isdigit() or made in _WORDS:
        made = f"{made}_" if made in _WORDS else f"_{made}" if not made[0].isdigit() else f"n{made}"
    return re.sub(r"__+", "_", made)


def _unique(texts: Sequence[str], head: str = "") -> list[str]:
    made: list[str] = []
    for text in texts:
        text = f"{head}{text}" if text.startswith("[") and not text.startswith("['") else text
        name = _name(text)
        while name in made:
            name += "_"
        made.append(name)
    return made


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _name(name).split("_"))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
