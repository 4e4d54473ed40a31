"""The disk cache: hits, keys, damage, concurrency, limits, places it cannot write."""
import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from calque.lowering.driver import cache
from calque.lowering.driver.cache import (
    cache_info,
    cache_key,
    clear_disk_cache,
    compile_cached,
    lowering_version,
    parse_size,
)
from calque.lowering.target.targets import parse_target

CPU = parse_target("cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("CALQUE_CACHE", "CALQUE_CACHE_SIZE", "CALQUE_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache, "_state", dict.fromkeys(cache._state, 0))
    return tmp_path / "cache"


@pytest.fixture
def compiles(monkeypatch):
    """Replace the compiler by one that counts: the cache is what is tested."""
    calls = []

    def fake(source, target, options=()):
        calls.append(source)
        return b"program of " + source * 10
    monkeypatch.setattr(cache, "compile_module", fake)
    return calls


def entries(folder):
    return sorted(folder.glob("*.vmfb"))


def test_the_second_time_is_a_hit(compiles, folder):
    first = compile_cached("a", CPU)
    assert compile_cached(b"a", CPU) == first == b"program of " + b"a" * 10
    assert len(compiles) == 1 and len(entries(folder)) == 1
    info = cache_info()
    assert (info.entries, info.hits, info.misses, info.directory) == (1, 1, 1, str(folder))
    assert info.bytes == entries(folder)[0].stat().st_size
    assert clear_disk_cache() == 1 and cache_info().entries == 0


def test_a_real_program_survives_the_disk():
    source = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    assert compile_cached(source, CPU) == compile_cached(source, CPU)
    assert cache_info().hits == 1


def test_the_key_covers_what_decides_the_bytes(monkeypatch, tmp_path):
    keys = [cache_key(b"m", CPU), cache_key(b"n", CPU), cache_key(b"m", CPU, ("--x",)),
            cache_key(b"m", CPU, ("--x", "--y")), cache_key(b"m", CPU, ("--x--y",)),
            cache_key(b"m", parse_target("cpu:aarch64")), cache_key(b"m", parse_target("cuda"))]
    monkeypatch.setattr(cache, "compiler_version", lambda: "3.14.0")
    keys.append(cache_key(b"m", CPU))
    monkeypatch.setattr(cache, "lowering_version", lambda: "other")
    keys.append(cache_key(b"m", CPU))
    source = tmp_path / "k.o"
    module = f'#hal.executable.object<{{path = "{source}"}}>'.encode()
    keys.append(cache_key(module, CPU))
    source.write_bytes(b"one")
    keys.append(cache_key(module, CPU))
    source.write_bytes(b"two")
    keys.append(cache_key(module, CPU))
    assert len(set(keys)) == len(keys)
    assert cache_key(module, CPU) == keys[-1]


def test_the_lowering_version_is_that_of_the_sources(monkeypatch, tmp_path):
    (tmp_path / "rules").mkdir()
    for name in ("a.py", "rules/b.py", "notes.txt"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))

    def version():
        lowering_version.cache_clear()
        return lowering_version()
    try:
        first = version()
        (tmp_path / "notes.txt").write_text("2")
        assert version() == first
        (tmp_path / "rules/b.py").write_text("2")
        assert version() != first
    finally:
        lowering_version.cache_clear()


@pytest.mark.parametrize("damage", [
    lambda b: b"", lambda b: b[:20], lambda b: b[:-1], lambda b: b + b"x",
    lambda b: b"X" + b[1:], lambda b: b[:60] + bytes([b[60] ^ 1]) + b[61:]],
    ids=["empty", "stump", "truncated", "longer", "magic", "one bit"])
def test_damaged_entries_are_compiled_again(damage, compiles, folder):
    good = compile_cached(b"abc", CPU)
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert compile_cached(b"abc", CPU) == good and len(compiles) == 2
    assert path.read_bytes() == whole


def test_a_folder_where_an_entry_should_be(compiles, folder):
    folder.mkdir()
    (folder / (cache_key(b"a", CPU) + ".vmfb")).mkdir()
    with pytest.warns(RuntimeWarning, match="cannot write its compile cache"):
        assert compile_cached(b"a", CPU)


@pytest.mark.parametrize("setting", ["0", "off", "False"])
def test_it_can_be_switched_off(setting, compiles, folder, monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE", setting)
    compile_cached(b"a", CPU)
    compile_cached(b"a", CPU)
    assert len(compiles) == 2 and not folder.exists() and not cache_info().enabled


def test_places_it_cannot_write_cost_one_warning(compiles, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="(?s)cannot write.*Fix: set CALQUE_CACHE_DIR") as seen:
        compile_cached(b"a", CPU)
        compile_cached(b"a", CPU)
    assert len(seen) == 1 and len(compiles) == 2 and cache_info().entries == 0


def test_a_read_only_folder_still_serves(compiles, folder, monkeypatch):
    compile_cached(b"a", CPU)
    real = cache.tempfile.mkstemp

    def refuse(*args, **kwargs):  # chmod does not stop root
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(cache.os, "utime", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_cached(b"a", CPU)
    assert len(compiles) == 1 and real is not refuse


def test_a_full_disk_leaves_nothing_behind(compiles, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(cache.os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert compile_cached(b"a", CPU)
    assert list(folder.iterdir()) == []


def test_the_least_recently_used_go_first(compiles, folder, monkeypatch):
    names = [b"%d" % i * 200 for i in range(10)]
    old = time.time() - 1000
    for i, name in enumerate(names):
        compile_cached(name, CPU)
        os.utime(folder / (cache_key(name, CPU) + ".vmfb"), (old + i, old + i))
    size = cache_info().bytes // 10
    compile_cached(names[0], CPU)  # a hit makes the oldest the newest
    monkeypatch.setenv("CALQUE_CACHE_SIZE", str(size * 5))
    cache._prune()
    left = {path.stem for path in entries(folder)}
    assert cache_info().bytes <= size * 5
    assert cache_key(names[0], CPU) in left and cache_key(names[9], CPU) in left
    assert cache_key(names[1], CPU) not in left


def test_leftovers_of_killed_processes_are_swept(compiles, folder):
    compile_cached(b"a", CPU)
    fresh, stale = folder / "part-fresh", folder / "part-stale"
    for path in (fresh, stale):
        path.write_bytes(b"x")
    os.utime(stale, (0, 0))
    cache._prune()
    assert fresh.exists() and not stale.exists()


@pytest.mark.parametrize("text, size", [
    ("100", 100), ("64K", 65536), ("2G", 2 << 30), ("1.5M", 3 << 19), ("10 mb", 10 << 20),
    ("1GiB", 1 << 30)])
def test_sizes(text, size):
    assert parse_size(text) == size


def test_a_size_that_is_none_is_the_default(monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE_SIZE", "plenty")
    with pytest.warns(RuntimeWarning, match="is not a size"):
        assert cache_info().limit == 2 << 30


def test_the_log_says_why(compiles, monkeypatch, capsys):
    monkeypatch.setenv("CALQUE_LOG", "compile")
    compile_cached(b"a", CPU, reason="f: argument x is new: float32[3]")
    compile_cached(b"a", CPU, reason="again")
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("calque: compiled in ") and first.endswith("x is new: float32[3]")
    assert second.startswith("calque: disk hit in ") and f" for {CPU.name} " in second


WRITER = """
import sys
from calque.lowering.driver import cache
from calque.lowering.target.targets import parse_target
cache.compile_module = lambda source, target, options=(): source * 100000
target = parse_target("cpu:x86-64-v3")
for i in range(int(sys.argv[1])):
    source = b"module %d " % (i % 5)
    assert cache.compile_cached(source, target) == source * 100000
    if i % 7 == 0:
        cache.clear_disk_cache()
print("ok")
"""


def test_processes_write_the_same_keys_together(folder, tmp_path):
    running = [subprocess.Popen([sys.executable, "-c", WRITER, "30"], cwd=tmp_path, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    results = [process.communicate(timeout=120) for process in running]
    assert results == [("ok\n", "")] * 3
    assert list(folder.glob("part-*")) == []


def test_a_killed_writer_leaves_no_broken_entry(folder, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, "1000000"], cwd=tmp_path,
                               stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not entries(folder) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    for path in entries(folder):
        assert cache._read(path) is not None


def test_entries_are_private_files(compiles, folder):
    compile_cached(b"a", CPU)
    assert stat.S_IMODE(Path(entries(folder)[0]).stat().st_mode) == 0o600


SLOW = """
import sys, time
from calque.lowering.driver import cache
from calque.lowering.target.targets import parse_target
def compiled(source, target, options=()):
    print("compiled", flush=True)
    time.sleep(float(sys.argv[1]))
    return source
cache.compile_module = compiled
cache._LONGEST_WAIT_S = float(sys.argv[2])
assert cache.compile_cached(b"module", parse_target("cpu:x86-64-v3")) == b"module"
"""


def test_processes_that_want_one_program_compile_it_once(folder, tmp_path):
    """The second waits for the first, whose lock ends with it, but not for ever."""
    def start(*words):
        return subprocess.Popen([sys.executable, "-c", SLOW, *words], cwd=tmp_path, text=True,
                                stdout=subprocess.PIPE)
    first = start("0.6", "100")
    assert first.stdout.readline() == "compiled\n"
    second = start("0", "100")
    assert second.communicate(timeout=60)[0] == first.communicate(timeout=60)[0] == ""
    assert first.returncode == second.returncode == 0
    clear_disk_cache()
    first = start("1000", "100")  # it is killed in the middle
    assert first.stdout.readline() == "compiled\n"
    waits, late = start("0", "100"), start("0", "0")
    assert late.communicate(timeout=60)[0] == "compiled\n"  # that waited long enough
    first.kill()
    first.communicate()
    assert waits.communicate(timeout=60)[0] in ("", "compiled\n") and waits.returncode == 0
    assert len(list(folder.glob("*.lock"))) <= 1  # the killed one's: nobody else needed it
