"""The command `calque`: compile, run and inspect artifacts, look into programs and primitives.

Module map: app.py (the commands and their options), functions.py (FILE.py:FUNC and its arguments),
artifacts.py (run, inspect), models.py (generate), serve.py, header.py, explain.py,
scan.py (compat scan), doctor.py (doctor, cache),
processes.py (run-many), report.py (errors, exit codes, progress).
Exit codes: 0 done; 1 the user's function or a device failed; 2 the command was given wrongly.
"""
from __future__ import annotations

from calque_cli.app import app, main

__all__ = ["app", "main"]
