"""Options on the command line of a program of absl's."""
from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
    import calque, sys
    calque.config.parse_flags_with_absl()
    print(calque.config.jax_enable_x64, calque.config.jax_numpy_rank_promotion,
          calque.config.jax_debug_nans)
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = str(Path(__file__).resolve().parents[2])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments], capture_output=True,
        text=True, env={"PYTHONPATH": f"{path}/frontend:{path}", "PATH": "/usr/bin:/bin"})


def test_options_on_the_command_line() -> None:
    assert run(PROGRAM).stdout == "False allow False\n"
    done = run(PROGRAM, "--jax_enable_x64", "--jax_numpy_rank_promotion=raise", "--other",
               "--jax_debug_nans", "--nojax_debug_nans", "--", "--jax_debug_nans")
    assert done.stdout == "True raise False\n", done.stderr
    assert run(PROGRAM, "--jax_numpy_rank_promotion", "warn").stdout == "False warn False\n"
    done = run(PROGRAM, "--jax_enable_x64=perhaps")
    assert "jax_enable_x64 takes a bool, got 'perhaps'" in done.stderr and done.returncode == 1


def test_absl_knows_them() -> None:
    pytest.importorskip("absl")
    done = run("""
        import calque
        from absl import app, flags
        size = flags.DEFINE_integer("size", 1, "")
        calque.config.parse_flags_with_absl()
        print(flags.FLAGS.is_parsed(), size.value)
        app.run(lambda rest: print(size.value, calque.config.jax_enable_x64, rest[1:]))
    """, "--size=3", "--jax_enable_x64", "tail")
    assert done.stdout == "True 1\n3 True ['tail']\n", done.stderr
