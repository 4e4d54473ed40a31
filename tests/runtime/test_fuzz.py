"""Damaged artifacts are refused in words, whatever is wrong with them; none of them crashes.

The mutations are drawn from a seed.  They run in a process of their own, so that a crash is a
failed test.  A corpus of the kinds is in the code: flipped bits, cut ends, foreign files, spliced
and repeated parts, indices that lie; and, with digests made anew, changed records and changed bytes
of the module.  C++ has the same tests in tests/cpp/test_errors.cc and tests/cpp/test_artifact.cc.
"""
from __future__ import annotations

import pytest

import calque.aot
import calque.numpy as jnp

FUZZ = """
import json, random, sys
from calque import runtime
from calque.runtime import hosting
from calque.runtime.container import MAGIC, join

whole = open(sys.argv[1], "rb").read()
draw = random.Random(int(sys.argv[2]))
device = runtime.default_device()


def flipped():
    data = bytearray(whole)
    for _ in range(draw.choice([1, 1, 2, 16])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def cut():
    data = flipped() if draw.random() < 0.5 else whole
    return data[:draw.randrange(len(data))]


def foreign():
    start = draw.choice([b"", b"\\x7fELF", b"PK\\x03\\x04", b"{}", b"ML\\xefR",
                         whole[:draw.randrange(200)]])
    return start + draw.randbytes(draw.randrange(3000))


def spliced():
    a, b = sorted(draw.randrange(len(whole)) for _ in range(2))
    return draw.choice([whole[:a] + whole[b:], whole[:b] + whole[a:], whole[a:], whole + whole[:a]])


def lying():
    size = int.from_bytes(whole[-16:-8], "little")
    text = whole[-16 - size:-16].decode()
    part = json.loads(text)["parts"][0]
    part[draw.choice(list(part))] = draw.choice([None, -1, 0, 7, 2**63, "x", [], 1.5, True])
    odd = draw.choice([{"parts": [part]}, {"parts": part}, [part], {"parts": [part] * 3}, {}, 7,
                       None])
    text = json.dumps(odd).encode() if draw.random() < 0.8 else b"[" * draw.randrange(100000)
    length = draw.choice([len(text), len(text), 0, len(text) + 1, 2**64 - 1])
    return whole[:-16 - size] + text + length.to_bytes(8, "little") + MAGIC


kinds = {"flipped": flipped, "cut": cut, "foreign": foreign, "spliced": spliced, "lying": lying}
refused = 0
for round in range(int(sys.argv[3])):
    kind = draw.choice(list(kinds))
    data = kinds[kind]()
    try:
        artifact, rows = hosting.load_artifact(data, device)
        for row in rows:
            artifact[row[0]].executable({}).load()
    except runtime.ArtifactError as error:
        assert "Fix: " in str(error), (kind, str(error))
        refused += 1
    except Exception as error:
        sys.exit(f"{kind}, round {round}: {error!r}")
print(refused)
"""

# A file that is whole, but what it says of its function is not true: the JSON is changed in a place
# or two and the digest made anew.  Loading refuses it or not; a call runs or raises in
# three parts.
LIES = """
import collections, copy, json, random, sys
import numpy as np
from calque import runtime
from calque.runtime import hosting
from calque.runtime.container import join, split

whole = open(sys.argv[1], "rb").read()
draw = random.Random(int(sys.argv[2]))
device = runtime.default_device()
(part,) = split(whole, "")
text = next(iter(runtime.load(whole).functions.values())).text.encode()
ODD = [None, True, -1, 0, 1, 3, 5, 2**40, 1.5, "", "x", "n", "float64", "int8", "O", "V8", ",", [],
       {}, [[]], [0], [1, 0], ["computed", 1], ["argument", 0], ["argument", 7], ["empty"]]


def places(v, path=()):
    yield path
    for k in v if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ():
        yield from places(v[k], (*path, k))


def lie():
    raw = json.loads(text)
    raw["target"].pop("features", None)  # makes room
    for _ in range(draw.choice([1, 1, 2])):
        *path, last = draw.choice([p for p in places(raw) if p])
        at = raw
        for key in path:
            at = at[key]
        if draw.random() < 0.2:
            del at[last]
        else:
            at[last] = copy.deepcopy(draw.choice(ODD))
    return json.dumps(raw, separators=(",", ":")).encode()


def filled(argument):
    known = [min(d, 100) if isinstance(d, int) else 4 for d in argument.shape]
    return runtime.Buffer.from_numpy(np.ones(known, argument.dtype), device)


seen = collections.Counter()
for round in range(int(sys.argv[3])):
    made = lie().ljust(len(text))
    if len(made) > len(text):
        continue
    try:
        artifact, rows = hosting.load_artifact(join([part.replace(text, made)]), device)
    except runtime.ArtifactError as error:
        assert "Fix: " in str(error), str(error)
        seen["refused"] += 1
        continue
    for name, record in rows:
        try:
            call = hosting.bind(artifact, 0)
            for result in call(tuple(map(filled, artifact.functions[name].args))):
                result.numpy()
            seen["ran"] += 1
        except Exception as error:
            assert "Fix: " in str(error), (error, record)
            seen["raised"] += 1
print(sum(seen.values()) if seen["refused"] and seen["ran"] else seen)
"""

# Bytes of the module are changed and the digest is made anew: what is inside has to be looked at.
# Inspecting, linking and loading end in words or in nothing; of what is accepted some is run in a
# child, since changed instructions are the program's own, and how many die is printed.
CHANGED = """
import os, random, sys
import calque.aot
from calque import runtime
from calque.runtime.container import join, split

whole = open(sys.argv[1], "rb").read()
draw = random.Random(int(sys.argv[2]))
device = runtime.default_device()
(part,) = split(whole, "")


def changed():
    made = bytearray(part)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        size = draw.choice([1, 1, 2, 4, 8])
        at = draw.randrange(0, len(made) - size) // size * size
        most = 256 ** size - 1
        made[at:at + size] = draw.choice([
            0, 1, most, most // 2, most // 2 + 1, most - 3, draw.randrange(most),
            int.from_bytes(made[at:at + size], "little") ^ 1 << draw.randrange(8 * size),
        ]).to_bytes(size, "little")
    return join([bytes(made)])


def run(artifact):
    child = os.fork()
    if child == 0:
        for name in artifact.functions:
            program = artifact[name].executable({})
            try:
                if program is not None:
                    program.load()
            except Exception as error:
                os._exit(0 if isinstance(error, runtime.ArtifactError) else 1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


refused = died = 0
for round in range(int(sys.argv[3])):
    data = changed()
    try:
        runtime.aot.read_records(data)
        calque.aot.link(data)
        artifact = runtime.load(data, device)
    except runtime.ArtifactError as error:
        assert "Fix: " in str(error), str(error)
        refused += 1
        continue
    if round % 16 == 0:
        died += run(artifact) != 0
assert refused > 0.2 * int(sys.argv[3]), refused
print(int(sys.argv[3]))
print(f"{refused} of {round + 1} refused, {died} died when run", file=sys.stderr)
"""

# Every byte of the tables that IREE's loader of native code follows, changed in a way or more: it
# is refused, or its code is loaded.
TABLES = """
import struct, sys
from calque import runtime
from calque.runtime.container import join, split

whole = open(sys.argv[1], "rb").read()
device = runtime.default_device()
(part,) = split(whole, "")
start = part.index(bytes([127]) + b"ELF")
rows = struct.unpack_from("<H", part, start + 56)[0]
headers = [start + 64 + 56 * i for i in range(rows)]
(dynamic,) = [at for at in headers if struct.unpack_from("<I", part, at)[0] == 2]
place, _, _, size = struct.unpack_from("<QQQQ", part, dynamic + 8)
places = [*range(start, headers[-1] + 56), *range(start + place, start + place + size)]
refused = 0
for at in places:
    for value in (part[at] ^ 1 << at % 8, 0, 255)[:int(sys.argv[3])]:
        made = bytearray(part)
        made[at] = value
        try:
            artifact = runtime.load(join([bytes(made)]), device)
            for name in artifact.functions:
                artifact[name].executable({}).load()
        except runtime.ArtifactError as error:
            assert "Fix: " in str(error), (at - start, str(error))
            refused += 1
assert refused > len(places) // 4
print(int(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("fuzz") / "layer.vmfb"
    made = calque.aot.compile(lambda x, w: jnp.tanh(x @ w), "f32[2,3]", "f32[3,4]", name="layer")
    made.save(path)
    return str(path)


def fuzz(run_python, artifact: str, seed: int, rounds: int, code: str = FUZZ) -> None:
    done = run_python(f"import sys\nsys.argv = ['', {artifact!r}, {seed}, {rounds}]\n" + code)
    print(done.stderr)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert int(done.stdout) > 0.9 * rounds, done.stdout  # the others differ where nothing is read


def test_damaged_artifacts_are_refused(run_python, artifact: str) -> None:
    fuzz(run_python, artifact, seed=1, rounds=1500)


def test_records_that_lie_do_no_harm(run_python, artifact: str) -> None:
    fuzz(run_python, artifact, seed=1, rounds=1000, code=LIES)


def test_changed_bytes_do_no_harm(run_python, artifact: str) -> None:
    fuzz(run_python, artifact, seed=1, rounds=300, code=CHANGED)


def test_changed_tables_of_native_code_do_no_harm(run_python, artifact: str) -> None:
    fuzz(run_python, artifact, seed=1, rounds=1, code=TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_damaged_artifacts_are_refused(run_python, artifact: str, seed: int) -> None:
    fuzz(run_python, artifact, seed, rounds=20_000)
    fuzz(run_python, artifact, seed, rounds=5_000, code=LIES)
    fuzz(run_python, artifact, seed, rounds=20_000, code=CHANGED)
    fuzz(run_python, artifact, seed, rounds=3, code=TABLES)
