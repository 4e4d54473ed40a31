"""Whom folders and files that code is loaded from must belong to; what goes with a process."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest

from calque.lowering.compiler import folders
from calque.lowering.driver import cache
from calque.lowering.driver.cache import cache_info, compile_cached
from calque.lowering.kernels import user
from calque.lowering.target.targets import parse_target

CPU = parse_target("cpu:x86-64-v3")


@pytest.fixture(autouse=True)
def compiles(tmp_path, monkeypatch):
    """Without a home folder; a compiler that counts."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in ("CALQUE_CACHE_DIR", "CALQUE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def home(_):
        raise RuntimeError("Could not determine home directory.")
    monkeypatch.setattr(Path, "home", classmethod(home))
    monkeypatch.setattr(folders, "_said", set())
    monkeypatch.setattr(cache, "_state", dict.fromkeys(cache._state, 0))
    user._instead.cache_clear()
    calls = []
    monkeypatch.setattr(cache, "compile_module", lambda *a: calls.append(a) or b"program")
    yield calls
    user._instead.cache_clear()


def place():
    return Path(tempfile.gettempdir(), f"calque-{os.geteuid()}")


def test_without_a_home_folder_it_is_ours_alone(compiles):
    compile_cached("a", CPU)
    compile_cached("a", CPU)
    assert folders.cache_directory() == place() and len(compiles) == 1
    assert place().stat().st_mode & 0o777 == 0o700
    (entry,) = place().glob("*.vmfb")
    assert entry.stat().st_mode & 0o777 == 0o600


def laid_out_by_another(tmp_path, monkeypatch):
    place().mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda me=os.geteuid(): me + 1)
    Path(tempfile.gettempdir(), f"calque-{os.geteuid()}").mkdir(0o700)


def a_link(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir(0o700)
    place().symlink_to(tmp_path / "elsewhere")


def named_and_open_to_all(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "open"))


def named_and_open_to_the_group(tmp_path, monkeypatch):
    named_and_open_to_all(tmp_path, monkeypatch)
    (tmp_path / "open").chmod(0o770)


def a_link_that_is_named(tmp_path, monkeypatch):
    a_link(tmp_path, monkeypatch)
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(place()))


@pytest.mark.parametrize("laid_out", [laid_out_by_another, a_link, named_and_open_to_all,
                                      named_and_open_to_the_group, a_link_that_is_named])
def test_a_folder_that_is_not_ours_alone_is_not_used(laid_out, compiles, tmp_path, monkeypatch):
    laid_out(tmp_path, monkeypatch)
    with pytest.warns(RuntimeWarning, match="(?s)keeps no compiled programs in .*: .*, and what "
                      "lies there is run.\n  Fix: set CALQUE_CACHE_DIR to a folder") as seen:
        for _ in range(2):
            compile_cached("a", CPU)
            cache.store("table", CPU, b"x")
            assert cache.stored("table", CPU) is None
        kernel = user.kept("kernel.o", b"code")
    assert len(seen) == 1 and len(compiles) == 2 and cache_info().entries == 0
    assert kernel.read_bytes() == b"code" and kernel.parent.stat().st_mode & 0o777 == 0o700
    assert kernel.parent in folders._made and folders.cache_directory() not in kernel.parents
    folders.remove(kernel.parent)


def test_a_folder_of_the_home_that_the_group_could_write_is_closed(compiles, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "calque").mkdir()
    (tmp_path / "calque").chmod(0o775)
    compile_cached("a", CPU)
    assert (tmp_path / "calque").stat().st_mode & 0o777 == 0o755 and cache_info().entries == 1


@pytest.mark.parametrize("spoil", ["writable", "link", "hard"])
def test_a_file_that_others_can_write_is_not_loaded(spoil, compiles, tmp_path):
    compile_cached("a", CPU)
    (entry,) = place().glob("*.vmfb")
    kernel = user.kept("kernel.o", b"code")
    for path in (entry, kernel):
        if spoil == "writable":
            path.chmod(0o666)
        elif spoil == "link":
            path.rename(tmp_path / path.name)
            path.symlink_to(tmp_path / path.name)
        else:  # a link to a device, a pipe: what would not end
            path.unlink()
            os.mkfifo(path, 0o600)
    compile_cached("a", CPU)
    assert len(compiles) == 2
    assert user.kept("kernel.o", b"code") == kernel and folders.is_own_file(kernel)
    assert folders.is_own_file(entry)


def test_locks_do_not_follow_links(compiles, tmp_path):
    (tmp_path / "precious").write_text("mine")
    path = folders.own_directory(place()) / cache._file_name(b"a", CPU, ())
    path.with_suffix(".lock").symlink_to(tmp_path / "precious")
    compile_cached("a", CPU)
    assert (tmp_path / "precious").read_text() == "mine"
    with pytest.raises(OSError):
        folders.open_lock(path.with_suffix(".lock"))


def test_the_host_is_not_read_from_a_folder_of_another(tmp_path, monkeypatch):
    from calque.lowering.target import targets
    assert targets._host_record_path().parent == place()
    monkeypatch.setattr(os, "geteuid", lambda me=os.geteuid(): me + 1)
    place().mkdir(0o700)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert targets._host_record_path() is None


CHILD = """
import sys, time
from calque.lowering.compiler.compile import run_compiler
from calque.lowering.compiler.folders import temporary
temporary()
run_compiler(b"module {}", ("--iree-hal-target-device=local",
                            "--iree-hal-local-target-device-backends=llvm-cpu"), "input")
print("ready", flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
if sys.argv[1] == "crash":
    import ctypes
    ctypes.string_at(0)
"""


def _mode(place):
    """A folder's permissions; None of one that its process, or another's sweep, removed."""
    try:
        return place.stat().st_mode & 0o777
    except FileNotFoundError:
        return None


@pytest.mark.parametrize("named", [True, False])
def test_temporary_files_are_gone_when_a_process_ends(named, tmp_path, monkeypatch):
    """Of one that ends by itself, crashes, or is killed with its children; in TMPDIR, or in the
    folder of the cache."""
    at = Path(tempfile.gettempdir()) if named else tmp_path / "home/.cache/calque"
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    running = {way: subprocess.Popen(
        [sys.executable, "-c", CHILD, how], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, start_new_session=True, env={
            **os.environ, **({"TMPDIR": str(at)} if named else {}), "HOME": str(tmp_path / "home")})
        for way, how in (("end", "end"), ("crash", "crash"), ("group", "wait"))}
    for way, process in running.items():
        assert process.stdout.readline() == "ready\n"
        if way == "group":
            places = [*at.glob("calque-process-*")]
            assert {m for m in map(_mode, places) if m is not None} == {0o700}
            os.killpg(process.pid, signal.SIGKILL)
    for process in running.values():
        process.wait(60)
        process.stdout.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        folders.sweep(at)  # (as the next process does: of those that could not do it themselves)
        if not list(at.glob("*process*")):
            break
        time.sleep(0.02)
    assert not [p for p in at.iterdir() if named or p.name[:5] != "host-"]


def test_a_folder_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    """Processes that start at once sweep each other's new folders."""
    make, made = tempfile.mkdtemp, []

    def swept(**kwargs):
        made.append(make(**kwargs))
        if len(made) < 3:
            Path(made[-1]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    path = folders.temporary(tmp_path)
    assert len(made) == 3 and path == Path(made[-1]) and path.is_dir()
    folders.remove(path)


def test_where_they_lie(tmp_path, monkeypatch):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path / "cache"))
    system = Path(tempfile.gettempdir())
    assert folders.passing_place() == tmp_path / "cache"
    with folders.passing() as mine:
        assert mine.parent == tmp_path / "cache" and mine.stat().st_mode & 0o777 == 0o700
    assert not mine.exists()
    with monkeypatch.context() as full:
        full.setattr(folders, "free_space", lambda folder: 100)
        assert folders.passing_place() == system
    with monkeypatch.context() as closed:
        closed.setattr(os, "access", lambda path, how: False)
        assert folders.passing_place() == system
    (tmp_path / "cache").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others can write into it"):
        assert folders.passing_place() == system
    (tmp_path / "cache").chmod(0o700)
    monkeypatch.setenv("TMPDIR", str(system))
    assert folders.passing_place() == system


def test_folders_of_living_processes_stay():
    mine = folders.temporary()
    child = os.fork()
    if not child:
        folders._made.clear()  # as another process
        folders.sweep(mine.parent)
        os._exit(0 if mine.exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
    folders.remove(mine)
    assert not mine.exists()


def test_half_made_kernels_of_processes_that_were_killed_are_removed(tmp_path):
    place = tmp_path / "ffi"
    place.mkdir()
    child = os.fork()
    if not child:
        (folders.temporary(place) / "kernel.o").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(place.glob("*/kernel.o"))) == 1
    with folders.passing(place) as mine:
        assert list(place.iterdir()) == [mine]
    assert not list(place.iterdir())
