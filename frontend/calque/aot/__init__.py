"""Ahead of time: functions and the types of their arguments become .vmfb files.

  artifacts.py  trace, lower for each target, compile, link
  buckets.py    sizes for which there are programs of their own
  weights.py    names of captured arrays, archives of them
  records.py    what an artifact says of itself
  modules.py    classes whose methods are entry points, and whose arrays are state
  specs.py      types and arrays written as text: f32[8,128]

Start reading at artifacts.compile.
"""
from calque.aot.artifacts import (
    ArgumentError,
    Artifact,
    Part,
    SpecError,
    Traced,
    build,
    compile,
    link,
    load,
    lower_for,
    options_for,
    parameters,
    save_parameters,
    trace,
    tree_json,
)
from calque.aot.modules import Module, export

__all__ = ["ArgumentError", "Artifact", "Module", "Part", "SpecError", "Traced", "build",
           "compile", "export", "link", "load", "lower_for", "options_for", "parameters",
           "save_parameters", "trace", "tree_json"]
