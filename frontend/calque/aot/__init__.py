"""Ahead of time: functions and the types of their arguments become .vmfb files.

  artifacts.py  trace, lower for each target, compile, link
  buckets.py    sizes for which there are programs of their own
  weights.py    names of captured arrays, archives of them
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

__all__ = ["ArgumentError", "Artifact", "Part", "SpecError", "Traced", "build", "compile", "link",
           "load", "lower_for", "options_for", "parameters", "save_parameters", "trace",
           "tree_json"]
