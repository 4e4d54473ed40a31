"""Draws programs of 5 to 15 lines over the public API (see fuzz_api.py).

A program is text; its lines are drawn one after another, staged and interpreted on NumPy at once,
so that the draw knows every value's shape, dtype and weak type, and so that the others who run the
line (eagerly, in JAX) start from the same operands.  A line that calque refuses is kept as a probe:
its error class is compared.  `Words` are what recipes may say in braces.  Start reading at `draw`.
"""
from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import calque
from calque import lax, nn, ops, random, scipy
from calque.core.avals import ShapedArray
from calque.core.dtypes import is_key
from calque.lowering.passes.hoist import hoist
from calque.transforms.stage import stage
from support import fuzz_api_lax  # noqa: F401  (adds its recipes)
from support.fuzz_api_modes import MODES, Mode
from support.fuzz_api_numpy import RECIPES
from support.oracle import interpret

GROUP = 25  # programs that are compiled as one module
SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 100, 150]
LARGEST = 700  # elements of a value; larger ones are not used further
ENV: dict[str, Any] = {"jax": calque, "jnp": calque.numpy, "lax": lax, "nn": nn, "random": random,
                       "jsp": scipy, "ops": ops, "leaves": calque.tree_util.tree_leaves}
NAMES = sorted(RECIPES)
# drawn less often: their compiles are long
HEAVY = ("random.", "nn.initializers.", "jsp.linalg.", "lax.linalg.", "jnp.linalg.")
DTYPES = ["float32"] * 5 + ["float64", "float16", "bfloat16", "int32", "int32", "int8", "int16",
          "int64", "uint8", "uint16", "uint32", "uint64", "bool", "bool", "complex64", "complex128"]
KINDS = {"b": "b", "i": "i", "u": "u", "f": "f", "c": "c", "V": "f"}


class Reject(Exception):
    """The drawn line is of no use; another one is drawn."""


@dataclass(slots=True)
class Value:
    """A variable of the program."""

    name: str
    x: Any  # NumPy array
    weak: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def dtype(self) -> Any:
        return self.x.dtype

    @property
    def kind(self) -> str:
        return KINDS.get(self.x.dtype.kind, "?")

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.x.dtype, self.weak)


@dataclass(slots=True)
class Line:
    """One line: `names = text`, over variables drawn before."""

    name: str  # of the recipe
    text: str
    operands: list[Value]
    results: list[Value]
    staged: Any  # its Program

    def source(self) -> str:
        left = ", ".join(v.name for v in self.results)
        return f"{left}, = leaves({self.text})" if len(self.results) == 1 else (
            f"{left} = leaves({self.text})[:{len(self.results)}]")


@dataclass(slots=True)
class Drawn:
    """A program with its arguments, mode and probes."""

    seed: int
    x64: bool
    lines: list[Line] = field(default_factory=list)
    args: list[Value] = field(default_factory=list)
    outs: list[str] = field(default_factory=list)
    mode: Mode | None = None
    probes: list[tuple[str, list[Value], Exception]] = field(default_factory=list)
    without_oracle: list[str] = field(default_factory=list)

    def source(self) -> str:
        """The program as a function `f` of its arguments."""
        head = f"def f({', '.join(v.name for v in self.args)}):"
        body = [f"    {line.source()}" for line in self.lines]
        return "\n".join([head, *body, f"    return [{', '.join(self.outs)}]"])


def function(source: str, env: dict[str, Any]) -> Callable[..., Any]:
    """The function f of a program's text."""
    scope = dict(env)
    exec(compile(source, "<program>", "exec"), scope)
    return scope["f"]


def draw(seed: int) -> Drawn:
    """The program of a seed."""
    return Words(seed).program()


def cleaned(program: Any) -> Any:
    """Calls of custom rules as plain calls, which the oracles know."""
    return hoist(program)


def timed(seconds: float, f: Callable[[], Any]) -> Any:
    """f(), or TimeoutError: some oracles take minutes (mpmath's slopes of the gamma functions)."""
    def stop(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return f()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Words:
    """The draw: a pool of values, and the words that recipes say in braces."""

    A = "fiubc"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 31])
        self.made = Drawn(seed, x64=bool(seed // GROUP % 3))  # a group is of one kind
        self.values: list[Value] = []
        self.p: list[Value] = []
        self.fixed = [int(self.rng.choice(SIZES[1:] if self.rng.random() < .8 else SIZES))
                      for _ in range(3)]
        self.constants = float(self.rng.choice([0., .5, .5, 1.]))  # 1: nothing is an argument
        self.special = self.rng.random() < .15
        self._axis: int | None = None
        words = {n: getattr(self, n) for n in dir(type(self)) if not n.startswith("_")}
        self.words = {k: v for k, v in words.items() if k not in ("program",)}

    # ---- the program
    def program(self) -> Drawn:
        with calque.enable_x64(self.made.x64):
            wanted, tries = int(self.rng.integers(5, 13)), 0
            while sum(1 for k in self.made.lines if k.name) < wanted and tries < 4 * wanted:
                tries += 1
                name = NAMES[self.rng.integers(len(NAMES))]
                if name.startswith(HEAVY) and self.rng.random() < .6:
                    continue
                recipe = RECIPES[name][self.rng.integers(len(RECIPES[name]))]
                try:
                    self.line(name, recipe)
                except Reject:
                    continue
            self._finish()
        return self.made

    def _finish(self) -> None:
        """Which values are returned, and in which mode the program is compiled."""
        every = [v.name for line in self.made.lines for v in line.results if line.name]
        read = {v.name for line in self.made.lines for v in line.operands}
        ends = [n for n in every if n not in read]
        more = [n for n in every if n in read and self.rng.random() < .25]
        # few results: what does not lead to them is not compiled, and the compiler may fuse
        outs = [str(n) for n in self.rng.permutation([*ends, *more])] or every[-1:]
        self.made.outs = outs[:int(self.rng.integers(1, 4))]
        floats = [i for i, a in enumerate(self.made.args) if a.kind == "f"]
        self.made.mode = MODES(self.rng, self.made.args, floats)

    def line(self, name: str, recipe: str) -> None:
        """Draw one line from a recipe."""
        self.p, self._axis = [], None
        count = len(self.made.lines)
        try:
            text = eval(f'f"""{recipe}"""', self.words | {"p": _Names(self.p)})
        except Reject:
            del self.made.lines[count + 0:]
            raise
        self.add(name, text)

    def add(self, name: str, text: str) -> list[Value]:
        """Stage and interpret a line; its results join the pool."""
        known = {v.name: v for v in [*self.made.args, *self.values]}
        known.update({v.name: v for line in self.made.lines for v in line.results})
        operands = [known[n] for n in dict.fromkeys(re.findall(r"\b[av]\d+\b", text))
                    if n in known]

        def run(*xs: Any) -> list[Any]:
            scope = ENV | dict(zip([v.name for v in operands], xs))
            return list(ENV["leaves"](eval(text, scope)))[:3]

        try:
            program = stage(run, [v.aval for v in operands], "line")
        except Exception as error:  # calque refuses the line: JAX has to refuse it as well
            if name and len(self.made.probes) < 4:
                self.made.probes.append((text, operands, error))
            raise Reject from error
        if not program.outputs or any(is_key(a.dtype) for a in program.out_avals):
            raise Reject
        try:
            outs = timed(2.0, lambda: interpret(cleaned(program), [v.x for v in operands]))
        except Exception as error:  # the interpreter has no such form: the line is left out
            self.made.without_oracle.append(f"{name}: {text}: {type(error).__name__} {error}")
            raise Reject from error
        base = sum(len(k.results) for k in self.made.lines)
        results = [Value(f"v{base + k}", o, a.weak_type)
                   for k, (o, a) in enumerate(zip(outs, program.out_avals))]
        self.made.lines.append(Line(name, text, operands, results, program))
        self.values.extend(v for v in results if self._useful(v, name))
        return results

    def _useful(self, v: Value, name: str) -> bool:
        """Whether later lines may read the value: NaN and 1e30 everywhere hide what they do."""
        if v.x.size > LARGEST or v.kind == "?" or v.dtype.name.startswith("float8"):
            return False
        if name == "" or self.special or v.kind not in "fc" or not v.x.size:
            return True
        with np.errstate(all="ignore"):
            wide = np.abs(v.x.astype(np.complex128 if v.kind == "c" else np.float64))
        bad = ~np.isfinite(wide) | (wide > 1e4)
        return bool(bad.mean() < .3 or self.rng.random() < .1)

    # ---- leaves
    def _dtype(self, kinds: str) -> Any:
        fit = [d for d in DTYPES if KINDS[np.dtype(d).kind] in kinds
               and (self.made.x64 or d not in ("float64", "int64", "uint64", "complex128"))]
        return np.dtype(fit[self.rng.integers(len(fit))])

    def _shape(self, rank: Any, low: int, high: int) -> tuple[int, ...]:
        if rank is None:
            rank = self.rng.choice([0, 1, 1, 1, 2, 2, 3])
        elif rank == "1+":
            rank = self.rng.choice([1, 1, 2, 2, 3])
        elif rank == "2+":
            rank = self.rng.choice([2, 2, 3])
        shape: list[int] = []
        for _ in range(int(rank)):
            room = max(1, LARGEST // max(1, math.prod(shape)) // 4 ** (int(rank) - len(shape) - 1))
            fit = [n for n in SIZES if low <= n <= min(high, room)] or [low]
            own = [n for n in self.fixed if n in fit]
            shape.append(int(self.rng.choice(own if own and self.rng.random() < .6 else fit)))
        return tuple(shape)

    def array_values(self, shape: Sequence[int], dtype: Any) -> Any:
        """Values of a leaf."""
        dtype, rng, n = np.dtype(dtype), self.rng, tuple(shape)
        kind = KINDS[dtype.kind]
        if kind == "b":
            return rng.integers(0, 2, n).astype(bool)
        if kind in "iu":
            info = np.iinfo(dtype)
            x = rng.integers(0 if kind == "u" else -3, 7, n).astype(dtype)
            if self.special or rng.random() < .1:
                far = rng.choice(np.array([info.min, info.max, info.max - 1, 5], dtype), n)
                x = np.where(rng.integers(0, 3, n) == 0, far, x).astype(dtype)
            return x
        x = rng.uniform(-2, 2, n) if rng.random() < .7 else rng.integers(-2, 3, n) * 1.
        x = np.round(x, 3)
        if kind == "c":
            x = x + 1j * np.round(rng.uniform(-2, 2, n), 3)
        if self.special:
            most = float(ml_dtypes.finfo(dtype if kind == "f" else "float32").max)
            x = np.where(rng.integers(0, 4, n) == 0, rng.choice(
                [np.nan, np.inf, -np.inf, -0.0, most, -most], n), x)
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype)

    def leaf(self, shape: Sequence[int], dtype: Any, values: Any = None) -> Value:
        """A new argument, or a line that makes a constant."""
        x = self.array_values(shape, dtype) if values is None else np.asarray(values).astype(dtype)
        if self.rng.random() >= self.constants:
            made = Value(f"a{len(self.made.args)}", x)
            self.made.args.append(made)
            self.values.append(made)
            return made
        (result,) = self.add("", self._constant(x, values is not None))
        return result

    def _constant(self, x: Any, exact: bool) -> str:
        dtype, shape = f"'{x.dtype.name}'", tuple(x.shape)
        kind = KINDS[x.dtype.kind]
        way = self.rng.integers(5)
        if exact or (x.size <= 12 and way < 2) or kind == "b":
            items = ", ".join(_number(v) for v in x.reshape(-1).tolist()) if x.size <= 60 else ""
            if x.size <= 60:
                text = f"jnp.array([{items}], {dtype})"
                return text if len(shape) == 1 else f"{text}.reshape({shape})"
            return f"(jnp.arange({x.size}) % 3 == 0).reshape({shape})" if kind == "b" else (
                f"(jnp.arange({x.size}) % 7).astype({dtype}).reshape({shape})")
        if way == 2:
            return f"jnp.ones({shape}, {dtype})"
        if way == 3:
            value = _number(x.reshape(-1)[0].item() if x.size else 2)
            return f"jnp.full({shape}, {value}, {dtype})"
        step = "" if kind in "iu" and self.rng.random() < .5 else " / 2" if kind in "fc" else " % 5"
        off = "" if kind == "u" else f" - {self.rng.integers(0, 3)}"
        return f"((jnp.arange({x.size}) % 9).astype({dtype}).reshape({shape}){step}{off})"

    def _pick(self, test: Callable[[Value], bool], fresh: Callable[[], Value], new: float = .25
              ) -> str:
        fit = [v for v in self.values if test(v)]
        v = fit[self.rng.integers(len(fit))] if fit and self.rng.random() > new else fresh()
        self.p.append(v)
        return v.name

    # ---- words: arrays
    def x(self, kinds: str, rank: Any = None, nz: int = 0, ge: int = 0, le: int = 10**6,
          of: int | None = None, w32: int = 0, f32: int = 0, tame: int = 0) -> str:
        low = max(ge, nz)

        def fits(v: Value) -> bool:
            r = len(v.shape)
            ranked = rank is None or rank == r or (isinstance(rank, str) and r >= int(rank[0]))
            if of is not None and v.shape != self.p[of].shape:
                return False
            wide = not w32 or v.dtype.itemsize >= 4
            exact = not f32 or v.dtype == np.float32
            return (v.kind in kinds and ranked and wide and exact
                    and all(low <= n <= le for n in v.shape))

        def fresh() -> Value:
            dtype = np.dtype("f4") if f32 else self._dtype(kinds)
            while w32 and dtype.itemsize < 4:
                dtype = self._dtype(kinds)
            shape = self.p[of].shape if of is not None else self._shape(rank, low, le)
            return self.leaf(shape, dtype)
        return self._pick(fits, fresh)

    def arr(self, shape: tuple[int, ...], kinds: str) -> str:
        return self._pick(lambda v: v.shape == shape and v.kind in kinds,
                          lambda: self.leaf(shape, self._dtype(kinds)), .3)

    def arr_as(self, shape: tuple[int, ...]) -> str:
        """Of the first operand's dtype."""
        dtype = self.p[0].dtype
        return self._pick(lambda v: v.shape == shape and v.dtype == dtype,
                          lambda: self.leaf(shape, dtype), .3)

    def same(self, k: int = 0) -> str:
        """Another of the k-th operand's shape and dtype (and not weak where that is not)."""
        w = self.p[k]
        return self._pick(lambda v: (v.shape, v.dtype) == (w.shape, w.dtype),
                          lambda: self.leaf(w.shape, w.dtype), .4)

    same_of = x
    like_same = same

    def like(self, k: int = 0) -> str:
        """One that broadcasts with the k-th operand."""
        return self.mate(self.A, k)

    def mate(self, kinds: str, k: int = 0) -> str:
        if self.p and self.rng.random() < .2:
            return self.num()
        base = self.p[k].shape if self.p else self._shape(None, 0, 10**6)
        shape = tuple(1 if self.rng.random() < .15 else n for n in base)
        if shape and self.rng.random() < .25:
            shape = shape[int(self.rng.integers(1, len(shape) + 1)):]
        return self._pick(lambda v: v.kind in kinds and _broadcast(v.shape, base),
                          lambda: self.leaf(shape, self._dtype(kinds)), .35)

    def mate_same(self) -> str:
        return self.arr(self.p[0].shape, "f")

    def scalar_like(self, value: Any = None) -> str:
        if value is not None:
            return f"jnp.asarray({value}, {self.p[0].name}.dtype)"
        return self.arr_as(())

    def scalar_of(self, kinds: str) -> str:
        return self.x(kinds, 0)

    def vec_as(self) -> str:
        """A vector of the first operand's dtype."""
        dtype = self.p[0].dtype
        return self._pick(lambda v: len(v.shape) == 1 and v.dtype == dtype and v.shape[0] < 40,
                          lambda: self.leaf(self._shape(1, 0, 17), dtype))

    def vec(self, kinds: str, axis: int | None = None) -> str:
        w = self.p[0]
        axis = axis if axis is not None else self._axis if self._axis is not None else 0
        return self.arr((w.shape[axis],), kinds)

    def vec_of(self, n: int, kinds: str) -> str:
        return self.arr((n,), kinds)

    def rows(self, kinds: str) -> str:
        return self.arr((self.p[0].shape[0], 2), kinds)

    def sq(self, kinds: str, n: int | None = None) -> str:
        size = int(self.rng.choice([0, 1, 2, 3, 3, 4, 5, 7])) if n is None else n
        return self._pick(
            lambda v: len(v.shape) == 2 and v.shape[0] == v.shape[1] < 9 and v.kind in kinds
            and (n is None or v.shape[0] == n), lambda: self.leaf((size, size), self._dtype(kinds)))

    def _wide(self, kinds: str) -> Any:
        while True:
            dtype = self._dtype(kinds)
            if dtype.itemsize >= 4:
                return dtype

    def sqd(self, kinds: str, w32: int = 0) -> str:
        """A square matrix with a large diagonal."""
        n = int(self.rng.choice([1, 2, 3, 3, 4, 5, 7]))
        dtype = self._wide(kinds) if w32 or self.rng.random() < .9 else self._dtype(kinds)
        x = np.round(self.rng.uniform(-1, 1, (n, n)), 2) + np.diag(np.arange(n) + 4.)
        v = self.leaf((n, n), dtype, x)
        self.p.append(v)
        return v.name

    def spd(self, kinds: str) -> str:
        """A symmetric positive definite matrix with eigenvalues well apart."""
        n = int(self.rng.choice([1, 2, 3, 3, 4, 5, 7]))
        x = np.round(self.rng.uniform(-.5, .5, (n, n)), 2)
        x = x + x.T + np.diag(3. * np.arange(n) + 5)
        dtype = self._wide(kinds) if self.rng.random() < .9 else self._dtype(kinds)
        v = self.leaf((n, n), dtype, x)
        self.p.append(v)
        return v.name

    def ramp(self, kinds: str, n: int) -> str:
        """n increasing values."""
        x = np.cumsum(self.rng.integers(1, 3, n)) - 5
        dtype = self._dtype(kinds)
        v = self.leaf((n,), dtype, x * (1 if KINDS[dtype.kind] == "i" else .5))
        self.p.append(v)
        return v.name

    def lead(self, kinds: str, n: int) -> str:
        """Coefficients whose first is not 0."""
        x = np.round(self.rng.uniform(-2, 2, n), 2)
        x[0] = 2
        v = self.leaf((n,), self._wide(kinds), x)
        self.p.append(v)
        return v.name

    def seg(self) -> str:
        n = self.p[0].shape[0]
        return self.arr((n,), "i")

    def cat(self) -> str:
        """One that joins to the first operand along any axis."""
        w = self.p[0]
        return self.arr(w.shape, self.A)

    def dotmate(self) -> str:
        """One whose first (or last but one) axis is as long as the first operand's last."""
        w = self.p[0]
        if not w.shape:
            return self.x(self.A)
        n = w.shape[-1]
        fit = self.rng.choice([1, 2])
        shape = (n,) if fit == 1 else (n, int(self.rng.choice([0, 1, 2, 3, 5])))
        kinds = w.kind if self.rng.random() < .7 else "fiuc"
        return self._pick(lambda v: len(v.shape) in (1, 2) and v.shape[0] == n and v.kind in kinds,
                          lambda: self.leaf(shape, self._dtype(kinds)), .4)

    def idx(self, n: int) -> str:
        """n indices, some out of range, often as a literal."""
        x = self.rng.integers(-2, 5, n)
        if self.rng.random() < .5:
            v = self.leaf((n,), self._dtype("i"), x)
            self.p.append(v)
            return v.name
        return f"jnp.array({x.tolist()})"

    # ---- words: numbers and choices
    def i(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def num(self) -> str:
        return str(self.rng.choice(["0.5", "2", "-1.5", "3", "1", "0", "0.25", "-2"]))

    def b(self) -> bool:
        return bool(self.rng.integers(2))

    def one(self, *choices: Any) -> str:
        return repr(choices[self.rng.integers(len(choices))])

    def one_(self, choices: Sequence[str]) -> str:
        return choices[self.rng.integers(len(choices))]

    def dt(self, kinds: str) -> str:
        return f"'{self._dtype(kinds).name}'"

    def samewidth(self) -> str:
        size = self.p[0].dtype.itemsize
        names = {1: ["int8", "uint8"], 2: ["float16", "int16", "bfloat16"],
                 4: ["float32", "uint32"], 8: ["float64", "int64"]}[size]
        return repr(names[self.rng.integers(len(names))])

    def size(self) -> int:
        return int(self.rng.choice(SIZES))

    def shape(self) -> str:
        return repr(self._shape(None, 0, 150))

    def axis(self) -> int:
        r = len(self.p[0].shape) if self.p else 1
        self._axis = int(self.rng.integers(-r, r)) if r else 0
        return self._axis

    def axis0(self) -> int:
        r = len(self.p[0].shape)
        return int(self.rng.integers(0, r)) if r else 0

    def ax(self) -> str:
        """None, an axis or several."""
        r = len(self.p[0].shape)
        way = self.rng.integers(4)
        if not r or way == 0:
            return "None"
        if way == 1 and r > 1:
            return repr(tuple(int(a) for a in self.rng.permutation(r)[:2]))
        return str(self.axis())

    def perm(self) -> str:
        return repr(tuple(int(a) for a in self.rng.permutation(len(self.p[0].shape))))

    def factors0(self) -> str:
        n = self.p[0].x.size
        divisors = [k for k in (1, 2, 3, 4, 5, 7, 8, 17) if n % k == 0]
        k = int(self.rng.choice(divisors))
        return repr(((n,), (k, n // k), (n // k, 1, k))[self.rng.integers(3)])

    def factors(self) -> str:
        text = self.factors0()
        return "-1" if self.rng.random() < .2 else text

    def wider(self) -> str:
        return self.wider_of(self.p[0].shape)

    def wider_of(self, shape: tuple[int, ...]) -> str:
        out = tuple(int(self.rng.choice([1, 3, 0])) if n == 1 else n for n in shape)
        return repr((*((2,) if self.rng.random() < .5 else ()), *out))

    def op(self) -> str:
        return str(self.rng.choice(["+", "-", "*", "/", "**", "<", "==", ">=", "!="]))

    def at(self) -> str:
        return self.one_(("set", "add", "multiply", "min", "max", "power", "divide", "subtract"))

    def ufunc(self) -> str:
        return self.one_(("add", "multiply", "maximum", "minimum", "logaddexp", "subtract"))

    def padmode(self) -> str:
        return self.one("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum",
                        "mean", "linear_ramp", "median")

    def qmethod(self) -> str:
        return repr(str(self.rng.choice(["linear", "lower", "higher", "nearest", "midpoint"])))

    def norm(self) -> str:
        return self.one(None, "ortho", "forward", "backward")


class _Names:
    """p[k] in a recipe is the k-th operand's name."""

    def __init__(self, picked: list[Value]) -> None:
        self.picked = picked

    def __getitem__(self, k: int) -> str:
        return self.picked[k].name


def _broadcast(shape: tuple[int, ...], base: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, base) == base or math.prod(
            np.broadcast_shapes(shape, base)) <= LARGEST
    except ValueError:
        return False


def _number(v: Any) -> str:
    """A number as text that both packages read."""
    if isinstance(v, complex):
        return f"complex({_number(v.real)}, {_number(v.imag)})"
    if isinstance(v, float):
        if v != v:
            return "jnp.nan"
        if v in (math.inf, -math.inf):
            return "jnp.inf" if v > 0 else "-jnp.inf"
    return repr(v)
