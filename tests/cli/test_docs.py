"""The outputs in docs/cli.md are what the commands print."""
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calque.runtime.target import cpu_flags

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def console():
    spec = importlib.util.spec_from_file_location("console", DOCS / "scripts" / "console.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif("avx2" not in cpu_flags(), reason="the pages run code for x86-64-v3")
@pytest.mark.parametrize("name", ["cli.md", "why_slow.md", "quickstart.md", "targets.md"])
def test_the_page_shows_what_the_commands_print(console, name):
    page = (DOCS / name).read_text()
    assert console._SIZE.sub("", console.rendered(page)) == console._SIZE.sub("", page), (
        f"run `python docs/scripts/console.py docs/{name}`")


def test_every_command_is_on_the_page():
    page = (DOCS / "cli.md").read_text()
    for command in ("compile", "run", "inspect", "dump", "explain", "doctor", "cache", "link",
                    "bench", "verify", "warmup", "run-many", "header", "generate", "serve"):
        assert re.search(rf"calque {command}\b", page.replace("\n", " "))


def test_commands_go_on_after_a_backslash(console):
    assert console._commands("$ calque a \\\n  --b\nout\n$ calque c\n") == [
        "calque a \\\n  --b", "calque c"]


TRAIN = """
import jax
print(float(jax.grad(lambda x: jax.numpy.sin(x))(0.0)))
"""
MODEL = """
import jax, jax.numpy as jnp, numpy as np

W = np.full((8, 3), 0.5, np.float32)

def predict(x):
    return jax.nn.softmax(jnp.tanh(x) @ W)
"""


def shell_blocks(page: Path) -> list[list[str]]:
    """The commands of each ```sh block of a page, without what is behind # ."""
    return [[re.sub(r"\s+# .*", "", line) for line in body.splitlines() if line.strip()]
            for body in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S)]


def test_the_commands_of_the_readme_run_as_typed(tmp_path):
    """The model imports jax, which is not installed in the tests' environment: calque takes its
    place, as docs/ship_jax_model.md says, whose commands are these and one more."""
    commands, = shell_blocks(DOCS.parent / "README.md")
    assert len(commands) == 3 and shell_blocks(DOCS / "ship_jax_model.md")[0] == [
        "calque compile model.py:predict --arg 'f32[n,4]' -o model.vmfb"]
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "model.py").write_text(MODEL)
    np.save(tmp_path / "x.npy", np.zeros((2, 8), np.float32))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    said = [subprocess.run(c, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path},
                           check=True, capture_output=True, text=True) for c in commands]
    assert said[0].stdout == "1.0\n"
    assert "wrote model.vmfb" in said[1].stdout and "calque takes its place" in said[1].stderr
    assert "0.333" in said[2].stdout


def test_an_exported_function_is_compiled(tmp_path, calque, monkeypatch):
    import calque as package
    from calque import export
    monkeypatch.chdir(tmp_path)
    made = export.export(package.jit(package.numpy.tanh))(package.ShapeDtypeStruct((3,), "float32"))
    Path("tanh.jaxexport").write_bytes(made.serialize())
    assert "wrote tanh.vmfb" in calque("compile", "tanh.jaxexport").out
    np.save("x.npy", np.float32([0, 1, 2]))
    text = calque("run", "tanh.vmfb", "--input", "x.npy").out
    np.testing.assert_allclose([float(x) for x in re.findall(r"-?\d+\.\d+|\b0\b", text)][-3:],
                               np.tanh([0, 1, 2]), atol=1e-4)
