"""debug.breakpoint by a fed terminal, and the order and forms of debug.callback and debug.print.

The sequences are what jax 0.10.2 prints for the same functions; where a program runs more than once
over equal values JAX may change the order within one vmapped call, and we do not."""
from __future__ import annotations

import cmd
import functools
import io
import subprocess
import sys

import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.api.debugger import Debugger


def session(function, commands: str, *args):
    """What the debugger writes, and what the function returns."""
    out = io.StringIO()

    stop = functools.partial(calque.debug.breakpoint, stdin=io.StringIO(commands), stdout=out)
    result = function(stop)(*args)
    return out.getvalue(), result


def nested(stop):
    def inner(y):
        z = y * 3
        stop()
        return z + 1

    def outer(x):
        w = {"a": x, "b": "text", "n": [1, 2]}
        return inner(x + 1) + 0 * len(w)

    return outer


def test_the_commands() -> None:
    text, result = session(
        lambda stop: calque.jit(nested(stop)),
        "p y\np z + 1\nlocals\nlist\np w\nu\np w\npp w\nw\nd\nd\np 1/0\np y = 3\nx\n\nhelp p\n"
        "z.shape\nc\n", jnp.arange(2.0))
    assert result.tolist() == [4, 7]
    parts = text.split("(jdb) ")
    assert parts[0] == "Entering jdb:\n"
    assert parts[1] == "Array([1., 2.], dtype=float32)\n"
    assert parts[2] == "Array([4., 7.], dtype=float32)\n"
    assert "z = Array([3., 6.], dtype=float32)\n" in parts[3] and "y = Array(" in parts[3]
    assert "->          stop()" in parts[4] and "def inner" in parts[4]
    assert parts[5] == "*** NameError: name 'w' is not defined\n"
    assert "->          return inner(x + 1)" in parts[6]
    values = "{'a': Array([0., 1.], dtype=float32), 'b': 'text', 'n': [1, 2]}\n"
    assert parts[7] == parts[8] == values
    assert parts[9].startswith("Traceback:\n") and parts[9].index("in outer") < parts[9].index(
        "in inner")
    assert "def inner" in parts[10] and "At bottommost frame." in parts[11]
    assert parts[12] == "*** ZeroDivisionError: division by zero\n"
    assert parts[13].startswith("*** SyntaxError")
    assert parts[14].startswith("*** NameError")
    assert parts[15] == ""
    assert "print its value" in parts[16]
    assert parts[17] == "(2,)\n"


def test_jax_s_commands_are_here() -> None:
    """Those that its debugger's help lists, and locals; an empty line (emptyline) does nothing."""
    there = {n.removeprefix("do_") for n in dir(Debugger) if n.startswith("do_")}
    assert there >= {"EOF", "c", "continue", "down", "help", "list", "quit", "up", "where", "bt",
                     "cont", "d", "exit", "l", "p", "q", "u", "w"}
    assert there >= {n.removeprefix("do_") for n in ("do_pp", "do_locals")}
    assert Debugger.emptyline is not cmd.Cmd.emptyline


def test_inside_transformations() -> None:
    def f(stop):
        def inner(x):
            y = x * 2
            stop()
            return y * y
        return inner

    look = "p x\np y\nc\n"
    once = "Entering jdb:\n(jdb) {}\n(jdb) {}\n(jdb) "

    def shown(*pairs: tuple[float, float]) -> str:
        return "".join(once.format(*[f"Array({v}, dtype=float32)" for v in p]) for p in pairs)

    x = jnp.float32(3)
    three = shown(("3.", "6."))
    for made, value in ((lambda s: f(s), 36), (lambda s: calque.jit(f(s)), 36),
                        (lambda s: calque.grad(f(s)), 24),
                        (lambda s: calque.jit(calque.grad(f(s))), 24),
                        (lambda s: calque.jit(lambda x: lax.cond(x > 0, f(s), lambda x: x, x)),
                         36)):
        text, result = session(made, look, x)
        assert (text.replace(", weak_type=True", ""), float(result)) == (three, value)
    text, result = session(lambda s: calque.vmap(f(s)), look * 2, jnp.arange(2.0))
    assert result.tolist() == [0, 4] and text == shown(("0.", "0."), ("1.", "2."))
    text, _ = session(lambda s: calque.jit(lambda x: lax.scan(
        lambda c, v: (f(s)(c), None), x, jnp.arange(2.0))), look * 2, x)
    assert text == shown(("3.", "6."), ("36.", "72."))


def test_tokens() -> None:
    text, result = session(
        lambda stop: calque.jit(lambda x: stop(token={"a": x, "b": [x, 2]})), "p x\nc\n", 1.5)
    assert text.count("Entering") == 1 and "Array(1.5" in text
    assert float(result["a"]) == 1.5 and int(result["b"][1]) == 2
    text, _ = session(lambda stop: calque.jit(lambda x: (stop(token=x), x + 1)[1]), "c\n", 1.0)
    assert text == ""  # what nobody uses is left out
    text, result = session(lambda stop: calque.grad(lambda x: stop(token=x) + 1), "c\n", 1.0)
    assert text.count("Entering") == 1 and float(result) == 0  # (as JAX)


def test_what_breakpoint_refuses() -> None:
    stop = calque.debug.breakpoint
    with pytest.raises(ValueError, match="mutually exclusive"):
        stop(ordered=True, token=1.0)
    with pytest.raises(ValueError, match="num_frames"):
        stop(num_frames=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        stop(foo=1)
    with pytest.raises(TypeError, match="backend"):
        stop(backend=3)
    with pytest.raises(SystemExit):
        session(lambda s: calque.jit(nested(s)), "q\n", 1.0)
    with pytest.raises(SystemExit):  # the end of the input
        session(nested, "p y\n", 1.0)
    text, _ = session(lambda s: lambda: s(num_frames=1, filter_frames=False), "u\nc\n")
    assert "At topmost frame." in text
    assert session(nested, "p y\nc\n", 1.0)[1] == 7  # quitting left no lock behind


def test_values_of_other_transformations_and_keys_are_not_asked_for() -> None:
    leaked = []

    class Odd:
        """A node that cannot be taken apart."""

        def __repr__(self) -> str:
            return "odd"

    def fails(_):
        raise RuntimeError("not now")

    calque.tree_util.register_pytree_node(Odd, fails, fails)

    def f(stop):
        def g(x, key):
            old = leaked[0]  # noqa: F841
            odd = Odd()  # noqa: F841
            stop()
            return x
        return g

    calque.jit(lambda x: leaked.append(x) or x)(1.0)
    text, _ = session(lambda s: calque.jit(f(s)), "p old\np key\np x\np odd\nc\n", 2.0,
                      calque.random.key(0))
    assert text.count("not known here") == 2 and "Array(2." in text and ") odd\n" in text


def test_the_terminal() -> None:
    code = ("import calque\n\n@calque.jit\ndef f(x):\n    y = x * 2\n"
            "    calque.debug.breakpoint()\n    return y\n\nprint(f(3.0))\n")
    done = subprocess.run([sys.executable, "-c", code], input="p y\nc\n", text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Entering jdb:\n(jdb) Array(6.") and done.stdout.endswith("6.0\n")


@pytest.mark.parametrize("ordered", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_order_of_callbacks(ordered) -> None:
    seen = []

    def f(x):
        calque.debug.callback(lambda v: seen.append(("a", float(v))), x, ordered=ordered)
        calque.debug.callback(ordered=ordered)(lambda v: seen.append(("b", float(v))), x + 1)
        return x

    def went(g, *args):
        seen.clear()
        g(*args)
        calque.effects_barrier()
        return " ".join(f"{n}{v:g}" for n, v in seen)

    x, xs = jnp.float32(0), jnp.arange(3.0)
    assert went(f, 1.0) == went(calque.jit(f), 1.0) == "a1 b2"
    assert went(calque.vmap(f), xs) == went(calque.jit(calque.vmap(f)), xs) == "a0 a1 a2 b1 b2 b3"
    both = calque.jit(lambda x: (
        lax.scan(lambda c, v: (f(c) + v, None), x, xs),
        lax.fori_loop(0, 2, lambda i, c: f(c) + 1, x),
        lax.while_loop(lambda c: c < 2, lambda c: f(c) + 1, x),
        lax.cond(x < 1, f, lambda x: x, x)))
    assert went(both, x) == "a0 b1 a0 b1 a1 b2" + " a0 b1 a1 b2" * 2 + " a0 b1"
    assert went(calque.vmap(lambda y: lax.scan(lambda c, v: (f(c) + v, None), y, xs[:2])[0]),
                xs[:2]) == "a0 a1 b1 b2 a0 a1 b1 b2"
    assert went(calque.vmap(lambda y: (f(1.0), y)[1]), xs) == "a1 b2"
    assert went(calque.jit(calque.grad(lambda v: f(v) ** 2)), 2.0) == "a2 b3"


def test_forms_of_print_and_log(capsys, caplog) -> None:
    calque.jit(lambda x: calque.debug.print(ordered=True)("two {} {k}", x, k=x))(1.0)
    calque.debug.callback(ordered=True)(lambda v, **k: print(v, sorted(k)), 1, ordered=False)
    assert capsys.readouterr().out == "two 1.0 1.0\n1 ['ordered']\n"
    with pytest.raises(TypeError, match="must be a str"):
        calque.debug.print(3, 1)
    with pytest.raises(TypeError, match="must be callable"):
        calque.debug.callback(ordered=True)(3, 1)
    with pytest.raises(IndexError):
        calque.debug.print("{}")
    with pytest.raises(KeyError):
        calque.debug.print("{q}", skip_format_check=True, k=1)
    # Whatever the logger's level is.
    calque.jit(lambda x: calque.debug.log("x = {x}", x=x))(2.0)
    record, = [r for r in caplog.records if r.name == "calque.debug"]
    assert (record.message, record.levelname, record.pathname, record.funcName) == (
        "x = 2.0", "INFO", __file__, "<lambda>")
