"""calque.debug.breakpoint: look at a program's values where it stands, while it runs.

Frames are taken when the function is traced: the user's, with their code and what their names hold.
Traced values among these are operands of a callback, and at run time their values are put back in
their places.  Start reading at `breakpoint`.
"""
from __future__ import annotations

import cmd
import inspect
import linecache
import operator
import pprint
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from calque.api import callbacks
from calque.core import dtypes
from calque.core.errors import explain
from calque.core.source import is_ours
from calque.core.trace import Trace, Tracer, current
from calque.trees import util as tree_util

_CONTEXT = 3  # lines before and behind the one at hand
_one_at_a_time = threading.Lock()  # programs of several threads share the terminal
_OPTIONS = ("stdin", "stdout", "completekey")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the user's, with values in place of what was traced."""

    file: str
    line: int
    function: str
    first: int  # line of the function's beginning
    code: tuple[str, ...]
    globals: dict[str, Any]
    locals: dict[str, Any]

    def listing(self, context: int | None = _CONTEXT) -> str:
        """The lines around the one at hand; None: the whole function."""
        at = self.line - self.first
        low, high = (0, len(self.code)) if context is None else (
            max(0, at - context), at + context + 1)
        lines = [f"{'->' if i == at else '  '}  {text.rstrip()}"
                 for i, text in enumerate(self.code) if low <= i < high]
        return "\n".join([f"> {self.file}({self.line})", *lines, ""])


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Stands for a value that belongs to a transformation which is over or not this one's."""

    type: str

    def __repr__(self) -> str:
        return f"<traced value {self.type}, not known here>"


def breakpoint(*, backend: str | None = None, filter_frames: bool = True,  # noqa: A001
               num_frames: int | None = None, ordered: bool = False, token: Any = None,
               **kwargs: Any) -> Any:
    """Stop the program here, when it runs, and let a person look: `help` lists the commands.

    Args:
      backend: accepted; there is one debugger, on the command line.
      filter_frames: leave out frames of calque and of excluded libraries.
      num_frames: how many frames may be looked at, from this one upwards; None: all.
      ordered: accepted; stops keep the program's order.
      token: array or tree of arrays, which is returned as it is: the stop comes when its value is
        there, and not at all where what is returned is not used.
      **kwargs: stdin and stdout, files to be used instead of the terminal; completekey, as cmd.Cmd
        has it.

    Returns:
      token, if one is passed, otherwise None.

    Raises:
      ValueError: ordered and token together; num_frames is less than 1.
      TypeError: an unknown argument, or one of another type.
      SystemExit: (when the program runs) the person quits.

    Example:
      >>> import io, sys, calque
      >>> @calque.jit
      ... def f(x):
      ...     y = x * 2
      ...     calque.debug.breakpoint(stdin=io.StringIO("p y + 1\\nc\\n"), stdout=sys.stdout)
      ...     return y
      >>> f(3.0) + 1
      Entering jdb:
      (jdb) Array(7., dtype=float32)
      (jdb) Array(7., dtype=float32, weak_type=True)
    """
    if not (backend is None or isinstance(backend, str)):
        raise TypeError(explain(f"breakpoint: backend must be a str, got {backend!r}."))
    if ordered and token is not None:
        raise ValueError(explain("`ordered` and `token` are mutually exclusive arguments.",
                                 fix="pass one of them."))
    if num_frames is not None and num_frames < 1:
        raise ValueError(explain(f"breakpoint: num_frames must be at least 1, got "
                                 f"{num_frames}.", fix="leave it out for all frames."))
    unknown = [n for n in kwargs if n not in _OPTIONS]
    if unknown:
        raise TypeError(explain(
            f"breakpoint() got an unexpected keyword argument {unknown[0]!r}.",
            fix=f"of the debugger: {', '.join(_OPTIONS)}."))
    frames = _frames(filter_frames, num_frames)
    operands: list[Any] = []
    made = [{name: _made(value, operands) for name, value in f.locals.items()} for f in frames]

    def stop(*values: Any) -> None:
        filled = [replace(f, locals={n: make(values) for n, make in names.items()})
                  for f, names in zip(frames, made)]
        with _one_at_a_time:
            Debugger(filled, **kwargs).run()

    if token is not None:
        return callbacks.passed_through("breakpoint", stop, token, operands)
    callbacks.callback(stop, *operands, ordered=ordered)
    return None


def _frames(filtered: bool, count: int | None) -> list[Frame]:
    """The frames of the stack, the innermost first."""
    frame: Any = sys._getframe(2)
    found: list[Frame] = []
    while frame is not None and (count is None or len(found) < count):
        code = frame.f_code
        if not (filtered and is_ours(code.co_filename)):
            if code.co_name == "<module>":
                lines, first = linecache.getlines(code.co_filename, frame.f_globals), 1
            else:
                try:
                    lines, first = inspect.getsourcelines(code)
                except (OSError, TypeError):  # code that has no file
                    lines, first = [], frame.f_lineno
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name, first,
                               tuple(lines), frame.f_globals, dict(frame.f_locals)
                               if code.co_name != "<module>" else {}))
        frame = frame.f_back
    return found


def _made(value: Any, operands: list[Any]) -> Callable[[Sequence[Any]], Any]:
    """What gives a local's value, from the operands' at run time; its tracers join the operands."""
    try:
        leaves, tree = tree_util.flatten(value)
    except Exception:  # a class whose node cannot be taken apart here: it is shown as it is
        return lambda values: value
    if not any(isinstance(x, Tracer) for x in leaves):
        return lambda values: value
    makers: list[Callable[[Sequence[Any]], Any]] = []
    for x in leaves:
        if isinstance(x, Tracer) and _is_known(x) and not dtypes.is_key(x.aval.dtype):
            makers.append(operator.itemgetter(len(operands)))
            operands.append(x)
        else:
            kept = _Unknown(str(x.aval)) if isinstance(x, Tracer) else x
            makers.append(lambda values, kept=kept: kept)  # type: ignore[misc]
    return lambda values: tree.unflatten([make(values) for make in makers])


def _is_known(x: Tracer) -> bool:
    """Whether the current trace may use a value: it belongs to it, or to one around it."""
    trace: Trace | None = current.get()
    while trace is not None:
        if x._trace is trace:
            return trace.open
        trace = trace.parent
    return False


class Debugger(cmd.Cmd):
    """Commands over frames."""

    prompt = "(jdb) "

    def __init__(self, frames: Sequence[Frame], stdin: IO[str] | None = None,
                 stdout: IO[str] | None = None, completekey: str = "tab") -> None:
        super().__init__(completekey, stdin, stdout)
        self.use_rawinput = stdin is None and stdout is None
        self.frames, self.at = frames, 0

    def run(self) -> None:
        """Ask for commands until one goes on or ends the program."""
        self.say("Entering jdb:")
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self.say("--KeyboardInterrupt--")

    def say(self, text: str) -> None:
        """Show a line."""
        self.stdout.write(text + "\n")
        self.stdout.flush()

    def evaluated(self, expression: str) -> tuple[Any] | None:
        """(the value of an expression in the frame,), or None after its error was shown."""
        frame = self.frames[self.at]
        try:
            return (eval(expression, frame.globals, frame.locals),)
        except Exception as error:
            self.say("*** " + "".join(traceback.format_exception_only(error)).strip()
                     .split("\n")[-1])
            return None

    def emptyline(self) -> bool:
        """An empty line does nothing."""
        return False

    def default(self, line: str) -> None:
        """What is no command is an expression."""
        self.do_p(line)

    def do_p(self, arg: str) -> None:
        """p expression: print its value."""
        value = self.evaluated(arg)
        if value is not None:
            self.say(repr(value[0]))

    def do_pp(self, arg: str) -> None:
        """pp expression: print its value over several lines."""
        value = self.evaluated(arg)
        if value is not None:
            self.say(pprint.pformat(value[0]))

    def do_locals(self, arg: str) -> None:
        """locals: the names of the frame and their values."""
        for name, value in self.frames[self.at].locals.items():
            self.say(f"{name} = {value!r}")

    def do_list(self, arg: str) -> None:
        """l(ist): the lines around the one at hand."""
        self.say(self.frames[self.at].listing())

    def do_where(self, arg: str) -> None:
        """w(here), bt: how the program came here, the innermost frame last."""
        self.say("Traceback:")
        for f in reversed(self.frames):
            self.say(f'  File "{f.file}", line {f.line}, in {f.function}')
            at = f.line - f.first
            if at < len(f.code):
                self.say(f"    {f.code[at].strip()}")

    def do_up(self, arg: str) -> None:
        """u(p): to the frame that called this one."""
        self.move(1, "At topmost frame.")

    def do_down(self, arg: str) -> None:
        """d(own): to the frame that this one called."""
        self.move(-1, "At bottommost frame.")

    def move(self, step: int, end: str) -> None:
        """To another frame, if there is one."""
        if 0 <= self.at + step < len(self.frames):
            self.at += step
        else:
            self.say(end)
        self.do_list("")

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue)): go on."""
        return True

    def do_quit(self, arg: str) -> None:
        """q(uit), exit, end of input: end the program."""
        raise SystemExit(0)

    do_l, do_w, do_bt, do_u, do_d, do_c, do_cont, do_q, do_exit, do_EOF = (
        do_list, do_where, do_where, do_up, do_down, do_continue, do_continue, do_quit, do_quit,
        do_quit)
