"""FILE.py:FUNC, --arg and --static: from the command line's words to a traced function.

Start reading at `traced_function`.
"""
from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque import aot
from calque.aot.artifacts import trace_all
from calque.aot.buckets import BucketError, Buckets
from calque.aot.specs import SpecError, has_64_bits, parse_tree
from calque.core.config import config
from calque.core.dims import SymbolicScope
from calque.lowering.compiler.compile import compile_to
from calque.lowering.driver.module import LowerOptions, lower, module_text
from calque.lowering.target.targets import Target
from calque_cli.report import UsageError, UserCodeError

_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The types of a function's arguments, and the values of its static ones."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    static: dict[str, Any]


def parse_arguments(args: Sequence[str], static: Sequence[str],
                    constraints: Sequence[str] = ()) -> Arguments:
    """Of the words after --arg and --static."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    try:
        scope = SymbolicScope(constraints)
    except ValueError as error:
        raise UsageError(str(error).splitlines()[0],
                         "write it like --constraint 'b >= 8'.") from None
    for text in args:
        found = _KEYWORD.fullmatch(text)
        if found is None:
            positional.append(parse_tree(text, scope))
        elif found[1] in keywords:
            raise UsageError(f"--arg {found[1]} is given twice.", "give each argument once.")
        else:
            keywords[found[1]] = parse_tree(found[2], scope)
    values = {}
    for text in static:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UsageError(f"--static {text!r} is not name=value.",
                             "write it like --static n=3.")
        values[name.strip()] = _literal(value.strip())
    return Arguments(tuple(positional), keywords, values)


def parse_buckets(texts: Sequence[str]) -> Buckets:
    """Of the words after --buckets: 1,8,64 or b=1,8 for one of several names."""
    named: dict[str, list[int]] = {}
    alone: list[int] = []
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        try:
            numbers = [int(n) for n in sizes.split(",") if n.strip()]
        except ValueError:
            raise UsageError(f"--buckets {text!r} are no sizes.",
                             "write them like --buckets 1,8,64, or --buckets b=1,8.") from None
        (named.setdefault(name.strip(), []) if equals else alone).extend(numbers)
    if named and alone:
        raise UsageError("some --buckets have a name and some have none.",
                         "write a name for all of them: --buckets b=1,8.")
    return named or alone


def _literal(text: str) -> Any:
    """A Python literal; anything else is a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@contextlib.contextmanager
def traced_function(where: str, args: Sequence[str], static: Sequence[str],
                    donate: Sequence[int] = (), name: str | None = None,
                    constraints: Sequence[str] = ()) -> Iterator[aot.Traced]:
    """The function at FILE.py:FUNC, traced; 64-bit types switch x64 on inside the block."""
    with traced_functions(where, args, static, donate, name, constraints) as every:
        yield every[0]


@contextlib.contextmanager
def traced_or_module(where: str, args: Sequence[str], static: Sequence[str], donate: Sequence[int],
                     name: str | None, constraints: Sequence[str], buckets: Sequence[str]
                     ) -> Iterator[list[aot.Traced] | aot.Module]:
    """What `traced_functions` gives, or the module where FILE.py:NAME is an `aot.Module`."""
    if _is_exported(where):
        with _exported(where, donate, name, [*args, *static, *constraints, *buckets]) as every:
            yield every
        return
    given = parse_arguments(args, static, constraints)
    path, names = _split(where)
    wide = has_64_bits((given.args, given.kwargs)) or config.jax_enable_x64
    with config.context("jax_enable_x64", wide), _import_path(path.parent):
        found = _find(_load(path), path, names)
        if not _is_module(found):
            yield _traced(found, path, given, donate, name, parse_buckets(buckets))
            return
        if args or static or donate or name or constraints or buckets:
            raise UsageError(f"{names} is an aot.Module, which says the types itself.",
                             "write them into @aot.export(...), and leave --arg, --static, "
                             "--donate, --name, --constraint and --buckets away.")
        try:
            made = found() if isinstance(found, type) else found
        except Exception as error:
            raise UserCodeError(str(path)) from error
        yield made


def _is_exported(where: str) -> bool:
    """Whether this is a file of an exported function, which has no FUNC behind it."""
    return where.endswith(".jaxexport") or (":" not in where and not where.endswith(".py")
                                            and Path(where).is_file())


@contextlib.contextmanager
def _exported(where: str, donate: Sequence[int], name: str | None, given: Sequence[str]
              ) -> Iterator[list[aot.Traced]]:
    """The function that jax.export or calque.export wrote into a file, traced for its types."""
    from calque import export, tree
    if given:
        raise UsageError(f"{where} is an exported function, which says its types itself.",
                         "leave --arg, --static, --constraint and --buckets away.")
    try:
        found = export.deserialize(bytearray(Path(where).read_bytes()))
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror}.",
                         "check the path; it is taken from the current folder.") from None
    except ValueError as error:
        raise UsageError(f"{where} holds no exported function: {str(error).splitlines()[0]}",
                         "write one by jax.export.export(jax.jit(f))(...).serialize(), or name a "
                         "function like model.py:predict.") from None
    args, kwargs = tree.unflatten(found.in_tree, found.in_avals)
    wide = has_64_bits((args, kwargs)) or config.jax_enable_x64
    with config.context("jax_enable_x64", wide):
        yield trace_all(found.call, *args, donate_argnums=donate, name=name or found.fun_name,
                        **kwargs)


def _is_module(found: Any) -> bool:
    return isinstance(found, aot.Module) or (
        isinstance(found, type) and issubclass(found, aot.Module))


def _traced(fun: Any, path: Path, given: Arguments, donate: Sequence[int], name: str | None,
            buckets: Buckets) -> list[aot.Traced]:
    try:
        return trace_all(fun, *given.args, static=given.static, donate_argnums=donate, name=name,
                         buckets=buckets, **given.kwargs)
    except (SpecError, BucketError, aot.ArgumentError):
        raise
    except Exception as error:
        raise UserCodeError(str(path)) from error


@contextlib.contextmanager
def traced_functions(where: str, args: Sequence[str], static: Sequence[str],
                     donate: Sequence[int] = (), name: str | None = None,
                     constraints: Sequence[str] = (), buckets: Sequence[str] = ()
                     ) -> Iterator[list[aot.Traced]]:
    """The same, and behind it the function of each combination of buckets."""
    with traced_or_module(where, args, static, donate, name, constraints, buckets) as found:
        if isinstance(found, aot.Module):
            raise UsageError(f"{where} is an aot.Module, no function.",
                             "name a function; calque compile takes modules, too.")
        yield found


def _split(where: str) -> tuple[Path, str]:
    file, colon, names = where.rpartition(":")
    if not colon or not file or not names:
        raise UsageError(f"{where!r} does not name a function in a file.",
                         "write it like model.py:predict.")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"no file {file}.", "check the path; it is taken from the current folder.")
    return path.resolve(), names


@contextlib.contextmanager
def _import_path(folder: Path) -> Iterator[None]:
    """The file's imports work as under `python FILE.py`."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _load(path: Path) -> Any:
    name = f"calque_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name} is not a Python file.", "give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("jax", "jaxlib"):
                raise
            _take_the_place_of_jax(path)
            spec.loader.exec_module(module)
    except Exception as error:
        raise UserCodeError(str(path)) from error
    return module


def _take_the_place_of_jax(path: Path) -> None:
    """For a file, or a library that it imports, which asks for a jax that is not installed."""
    import calque.compat
    calque.compat.install()
    print(f"calque: {path.name} imports jax, which is not installed: calque takes its place "
          "(docs/your_jax_code_here.md).", file=sys.stderr)


def _find(module: Any, path: Path, names: str) -> Any:
    found = module
    for name in names.split("."):
        if not hasattr(found, name):
            known = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")
                     and getattr(v, "__module__", None) == module.__name__]
            near = difflib.get_close_matches(name, known, 1)
            fix = (f"did you mean {near[0]}?" if near else
                   f"it has {', '.join(sorted(known)[:8])}." if known else
                   "define the function in that file.")
            raise UsageError(f"{path.name} has no {name!r}.", fix)
        found = getattr(found, name)
    if not callable(found) and not isinstance(found, aot.Module):
        raise UsageError(f"{names} in {path.name} is {type(found).__name__}, not a function.",
                         "name a function of arrays.")
    return found


def module_at(traced: aot.Traced, stage: str, target: Target) -> str:
    """The module of a function as text, after a stage; without the record, for reading."""
    low = lower(traced.program, target, LowerOptions(
        donated=traced.donated, bake_consts=True, whole=stage != "stablehlo"))
    if low.module is None:
        low = aot.lower_for(traced, target)  # nothing to compute: only the record is left
    assert low.module is not None
    if stage == "stablehlo":
        return module_text(low.module)
    return compile_to(low.module, target, stage, low.options)
