"""What a newcomer's wrong lines say, by its text; and what things show of themselves."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.core.config import config
from calque.runtime import errors as runtime_errors

x = jnp.zeros(3)
NAMES = {"calque": calque, "jnp": jnp, "jit": calque.jit, "lax": calque.lax, "x": x, "np": np}


def zeros(n: Any) -> Any:
    return jnp.zeros(n)


def counted(a: Any, n: Any, m: Any) -> Any:
    return [a for _ in range(n * m)]


NAMES |= {"zeros": zeros, "counted": counted}
# a line, and what its message has (regular expressions, each in a line of it)
LINES = {
    "jnp.random.normal(0, 1, 3)": [
        r"module 'calque.numpy' has no attribute 'random'\.$",
        r"Fix: calque\.random\.normal\(calque\.random\.key\(0\), \(3,\)\).*docs/random\.md\)\.$"],
    "calque.random.seed(0)": [r"Fix: key = calque\.random\.key\(0\)"],
    "calque.sin": [r"'calque' has no attribute 'sin'\.$",
                   r"Fix: calque\.numpy\.sin has this name\."],
    "calque.array": [r"Fix: calque\.numpy\.array has"],
    "jnp.foo": [r"Fix: did you mean calque\.numpy\.floor\? docs/jax_names\.md lists JAX's"],
    "jnp.linalg.inverse": [r"Fix: docs/jax_names\.md lists|Fix: did you mean"],
    "lax.matmul": [r"Fix: calque\.numpy\.matmul has"],
    "jnp.relu": [r"Fix: calque\.nn\.relu has"],
    "jnp.qqqqqqqq": [r"Fix: docs/jax_names\.md lists JAX's names, those that are here and"],
    "lax.psend": [r"halves of a message between GPUs are not taken apart\.$",
                  r"Fix: lax\.ppermute"],
    "jnp.concatenate(x, x)": [r"concatenate: the second argument is the axis, got an array\.$",
                              r"Fix: pass the arrays as one list: jnp\.concatenate\(\[a, b\]\)\.$"],
    "jnp.vstack(x, x)": [r"the second argument is the dtype", r"Fix: .*jnp\.vstack\(\[a, b\]\)"],
    "x.__setitem__(0, 2)": [r"Fix: x = x\.at\[idx\]\.set\(y\)"],
    "x.at.__setitem__(0, 2)": [r"x\.at\[index\] = y does not change",
                               r"Fix: x = x\.at\[index\]\.set"],
    "x.at[0].__iadd__(2)": [r"x\.at\[index\] \+= y does not", r"Fix: x = x\.at\[index\]\.add\(y\)"],
    "jnp.array([1, 2]) @ jnp.array([1, 2, 3])": [
        r"dot_general requires contracting dimensions to have the same shape, got \(2,\) and \(3,\)"
        r"\. matmul of shapes \(2,\) and \(3,\) sums over axis 0 of the first, of size 2, and axis "
        r"0 of the second, of size 3\.$"],
    "jnp.ones((2, 3)) @ jnp.ones((2, 3))": [
        r"matmul of shapes \(2, 3\) and \(2, 3\) sums over axis 1 .* axis 0 of"],
    "jit(zeros)(3)": [r"in the shape given to zeros\.$",
                      r"In zeros \(test_messages\.py:\d+\), in the function traced at <module> \(",
                      r"Fix: mark n as static, jit\(zeros, static_argnames='n'\)\.$"],
    "jit(counted, static_argnames='m')(1.0, 2, m=3)": [
        r"Fix: mark m and n as static, jit\(counted, static_argnames=\('m', 'n'\)\), or"],
    "jit(lambda a, b, n: jnp.zeros((n, b)))(1.0, 2, 3)": [
        r"Fix: mark [bn] as static, jit\(f, static_argnames='[bn]'\)"],
    "jit(lambda d: jnp.arange(d['k']))({'k': 3})": [
        r"Fix: pass d\['k'\] as an argument of its own and mark that as static, jit\(f, static_"],
    "jit(lambda a: 1 if a > 0 else 2)(1.0)": [
        r"lax\.cond, or mark a as static, jit\(f, static_argnames='a'\)\.$"],
    "jnp.ones(10**14)": [r"out of memory allocating 363\.8 TiB: ",
                         r"In <module> \(<string>:1\): broadcast_in_dim",
                         r"Fix: make the array smaller, by its shape or its dtype: this machine"],
    "calque.tree.map(max, {'a': 1}, {'b': 2})": [r"present keys: \['b'\]\.$"],
    "calque.config.jax_enable_x46": [r"no option 'jax_enable_x46'\.$",
                                     r"Fix: did you mean jax_enable_x64\? dir\(calque\.config\)"],
    "calque.config.update('zzz', 1)": [
        r"Unrecognized config option: zzz\.$", r"Fix: dir\(calque\.config\) lists"],
}


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_line(line: str) -> None:
    with pytest.raises(Exception) as found:  # noqa: B017  (by its text)
        eval(line, dict(NAMES))
    said = str(found.value)
    for wanted in LINES[line]:
        assert re.search(wanted, said, re.M), said
    assert not re.search(r"\.\.(?!\.)", said.replace("...", "")), said  # no double full stops


def test_python_adds_no_suggestion_of_its_own() -> None:
    """Behind ours it would say one a second time, after the full stop."""
    code = "import calque.numpy as jnp\njnp.sinn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.rstrip().endswith("that are not.") and done.stderr.count("did you mean") == 1


def test_absent_names_are_absent() -> None:
    assert not hasattr(calque, "sin") and not hasattr(jnp, "random") and "aot" not in dir(calque)
    with pytest.raises(ImportError, match="cannot import name 'sin'"):
        from calque import sin  # type: ignore[attr-defined] # noqa: F401


def test_a_module_that_is_imported_when_it_is_asked_for() -> None:
    code = "import calque, sys\nprint('calque.aot' in sys.modules, calque.aot.compile.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "compile"]


# an array of another library's that calls itself jax's, as an installed jax's does
Foreign = type("ArrayImpl", (), {
    "__module__": "jaxlib._jax", "aval": property(lambda self: None), "shape": (3,), "ndim": 1,
    "dtype": np.dtype("float32"), "__array__": lambda self, *_: np.ones(3, np.float32)})


@pytest.mark.parametrize("line, where", [
    ("jit(zeros)(a)", r"zeros got an array of the jax that is installed, at path args\[0\]\.$"),
    ("calque.grad(zeros)([a])", r"installed, at path args\[0\]\[0\]\.$"),
    ("jnp.sin(a)", r"sin got an array of the jax that is installed, at position 0\.$"),
    ("x + a", r"operator \+ got an array of the jax that is installed, as an operand\.$"),
    ("jit(lambda b: b @ a)(x)", r"operator @ got an array of the jax")])
def test_arrays_of_an_installed_jax(line: str, where: str) -> None:
    with pytest.raises(TypeError) as found:
        eval(line, {**NAMES, "a": Foreign()})
    said = str(found.value)
    assert re.search(where, said, re.M), said
    assert "\n  In " in said
    assert "Fix: convert arrays at the border, calque.numpy.asarray(x) and jax.numpy" in said
    assert jnp.asarray(Foreign()).sum() == 3


def test_what_is_shown() -> None:
    assert repr(calque.config).startswith("<calque.config: ")
    with config.context("jax_debug_nans", True):
        assert "jax_debug_nans=True" in repr(calque.config)
    shown = dir(calque.config)
    assert "jax_enable_x64" in shown and "update" in shown and "process_key" not in shown
    assert repr(calque.custom_vjp(zeros)) == "<calque.custom_vjp of zeros>"
    assert repr(calque.custom_jvp(zeros)) == "<calque.custom_jvp of zeros>"
    said = str(runtime_errors.device_error(MemoryError("no"), f"{'0a' * 13} on cpu:0"))
    assert re.search(r"\n  In test_what_is_shown \(test_messages\.py:\d+\): a program on cpu:0\.",
                     said), said


def test_a_save_says_how_far_it_is(tmp_path: pathlib.Path) -> None:
    saved = calque.checkpoints.save(tmp_path / "a", [x])
    assert repr(saved) == "<calque.checkpoints.Save: written>"


def test_help_begins_with_what_a_user_needs() -> None:
    text = calque.__doc__ or ""
    assert text.index("calque.jit(") < text.index("  calque.numpy  ") < text.index("rooms")
    for name in re.findall(r"^  (calque\.\w+)  ", text, re.M):
        assert os.path.exists(pathlib.Path(calque.__file__).parent / name.partition(".")[2]) or (
            hasattr(calque, name.partition(".")[2]))
