"""Processes that die, end early, stop, or run something else: an error in all others, no hang."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from jobs import HEAD, by_command, by_hand, segments, together

FIX = "\n  Fix: "


def test_an_exception_in_one_process() -> None:
    done = by_hand("""
        mu.sync_global_devices("start")
        if rank == 0:
            raise KeyError("no such file")
        mu.sync_global_devices("end")
    """, 2)
    assert done[0].code == 1 and "no such file" in done[0].out
    assert done[1].code != 0 and "KeyError: 'no such file'" in done[1].out, done[1].out


def test_a_process_ends_early() -> None:
    done = by_hand("""
        mu.sync_global_devices("start")
        if rank == 1:
            sys.exit(0)
        mu.process_allgather(1.0)
    """, 2)
    assert done[0].code != 0 and "process 1" in done[0].out, done[0].out
    assert done[1].code != 0, done[1].out  # it waited for the other at its end, which failed


def test_a_stopped_process() -> None:
    done = by_hand("""
        mu.sync_global_devices("start")
        if rank == 1:
            if os.fork() == 0:  # wakes it up again, when all is over
                time.sleep(4)
                os.kill(os.getppid(), signal.SIGCONT)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(1)
            os._exit(7)
        begun = time.time()
        try:
            mu.process_allgather(1.0)
        except RuntimeError as error:
            assert "nothing was heard of it for 2 s" in str(error), error
            print("WAITED", time.time() - begun, flush=True)
            raise
    """, 2, BEAT="2")
    assert done[0].code != 0 and "WAITED" in done[0].out, done[0].out


def test_preemption() -> None:
    """SIGTERM at one of them: all stop at one step."""
    done = by_hand("""
        mu.sync_global_devices("start")
        for step in range(2000):
            if step == 20 and rank == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            if mu.reached_preemption_sync_point(step):
                break
            time.sleep(0.001 * (1 + rank))
        mu.assert_equal(step)
        assert 20 <= step < 1999, step
        print("STEP", step, flush=True)
    """, 2)
    for d in done:
        assert d.code == 0 and "STEP" in d.out, d.out


# ---- in the middle of programs
PROGRAM = """
        from calque import lax
        from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ("d",))
        n = len(jax.devices())
        def mapped(f):
            return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
        x = jax.device_put(np.ones((n, 4), np.float32), NamedSharding(mesh, P("d")))
        def loss_step(v):
            return v + lax.pmean(v, "d")
        def other_step(v):
            return v * lax.pmax(v, "d")
"""


def test_a_process_is_killed_in_a_program(tmp_path: Path) -> None:
    before = segments()
    done = by_hand(PROGRAM + """
        def long(v):
            return lax.fori_loop(0, 1 << 20, lambda i, c: lax.pmean(c, "d") + 0 * v, v)
        mapped(loss_step)(x)
        f = mapped(long)
        if rank == 1:
            f.lower(x).compile()
            import threading
            def die():
                time.sleep(2)
                open(os.environ["DIED"], "w").write(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Thread(target=die, daemon=True).start()
        try:
            jax.block_until_ready(f(x))
        except RuntimeError as error:
            print("AFTER", time.time() - float(open(os.environ["DIED"]).read()), flush=True)
            try:
                mu.process_allgather(np.ones(4))
            except RuntimeError as again:
                print("AGAIN", "process_allgather cannot end: process 1 on" in str(again),
                      flush=True)
            raise
    """, 3, DIED=str(tmp_path / "died"))
    assert done[1].code == -9
    for rank in (0, 2):
        out = done[rank].out
        assert done[rank].code != 0 and "process 1 on" in out and "is lost" in out and FIX in out
        assert "reduce over d" in out and "cannot end" in out and "AGAIN True" in out, out
        assert float(out.split("AFTER")[1].split()[0]) < 5  # (bar: benchmarks)
        assert done[rank].at - done[1].at < 10
    assert segments() <= before


def test_programs_that_differ() -> None:
    """At their first run, and with CALQUE_CHECK at every message; who does not come in time."""
    done = by_hand(PROGRAM + """
        f, g = mapped(loss_step), mapped(other_step)
        fails(ValueError, lambda: (f if rank else g)(x), "process 0: other_step, which sends",
              "process 1: loss_step, which sends 1 messages: reduce over d", "Fix: ")
        fails(ValueError, lambda: mu.process_allgather(1) if rank else mapped(
            lambda v: v - lax.psum(v, "d"))(x), "the processes do different things")
        wide = mapped(lambda v: lax.psum(v, "d"))
        fails(ValueError, lambda: wide(jax.make_array_from_process_local_data(
            NamedSharding(mesh, P("d")), np.ones((1, 2 + rank), np.float32))), "process 1: ")
        fails(ValueError, lambda: wide(jax.make_array_from_process_local_data(
            NamedSharding(mesh, P("d")), np.ones((1, 3), np.int32 if rank else np.float32))),
            "process 0: ", "process 1: ")
        fails(AssertionError, lambda: jax.device_put(np.ones(2) * rank, x.sharding),
              "not the same on each process")
        f, g = mapped(lambda v: loss_step(v)), mapped(lambda v: other_step(v))
        f(x), g(x)  # both were seen, in all processes
        fails(ValueError, lambda: (f if rank else g)(x), "message", "reduce over d")
        f(x)

        # queued: in order behind a large one; failures have their type, where results are read
        import threading, traceback
        big = jax.device_put(np.ones((n, 1 << 20), np.float32), x.sharding)
        count, mean = mapped(lambda v: lax.pmean(v, "d") + 1), mapped(lambda v: lax.pmean(v, "d"))
        chain = mean(big)[:, :4]
        for _ in range(300):
            chain = count(chain)
        assert "calque messages" in [t.name for t in threading.enumerate()]
        assert chain.addressable_shards[0].data.tolist() == [[301.0] * 4]
        f, g = mapped(lambda v: loss_step(v)), mapped(lambda v: other_step(v))
        for h in (f, g):
            jax.block_until_ready(h(big))
        before = [mean(big) for _ in range(4)]  # so that it fails in the queue, not at the call
        bad = (f if rank else g)(big)
        for call in (bad.block_until_ready, lambda: (count(bad) * 2).block_until_ready(),
                     bad.block_until_ready):
            fails(ValueError, call, "the processes do different things", "process 1: message")
        try:
            bad.block_until_ready()
        except ValueError as error:
            assert "agree" in [f.name for f in traceback.extract_tb(error.__traceback__)]
        f(x)
        f(big).block_until_ready()
        jax.config.update("calque_collective_timeout_s", 1)
        if rank == 1:
            time.sleep(3)
            sys.exit(5)
        fails(RuntimeError, lambda: f(x), "was not answered within 1", "process 1 on",
              ": running", "calque_collective_timeout_s")
        print("SEEN", flush=True)
        os._exit(0)
    """, 2, CALQUE_CHECK="1")
    assert "SEEN" in done[0].out, done[0].out
    assert done[1].code != 0, done[1].out


def test_interrupted() -> None:
    """Ctrl-C, which a terminal sends to all of calque run-many."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(HEAD + textwrap.dedent(PROGRAM + """
        f = mapped(lambda v: lax.fori_loop(0, 1 << 24, lambda i, c: lax.pmean(c, "d"), v))
        f.lower(x).compile().runtime_executable()
        mu.sync_global_devices("compiled")
        print("RUNNING", flush=True)
        f(x)
        """))
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "calque"), "run-many", "-n", "2", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True)
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            out = next((line for line in lines if "RUNNING" in line), "")
            assert out, "it did not come so far"
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=20)
            assert process.returncode != 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


# ---- starting
def test_programs_that_cannot_start() -> None:
    used = HEAD.replace("rank = int(os", "jnp.ones(3)\nrank = int(os")
    missing, listeners, (alone,) = together(
        lambda: by_hand("", 3, ranks=[0, 1], WAIT="4"),
        lambda: by_hand("", 2, ranks=[0, 0], WAIT="4"),
        lambda: by_hand("", 2, ranks=[1], WAIT="1", HTTP_PROXY="http://proxy:1"))
    assert all(d.code != 0 for d in missing), missing
    # (where the machine is busy, the other may be late as well)
    assert any("of 3 processes, [" in d.out and "2] did not come within 4 s" in d.out
               for d in missing), missing
    # one of two processes 0 cannot listen where the other does, which then waits for process 1
    assert all(d.code != 0 for d in listeners)
    assert any("cannot listen" in d.out for d in listeners), [d.out for d in listeners]
    assert "was not reached within 1 s" in alone.out and "http_proxy" in alone.out, alone.out
    twice, (late,) = together(lambda: by_hand("", 3, ranks=[0, 1, 1], WAIT="3"),
                              lambda: by_hand("", 2, used, ranks=[0]))
    # the later of two with one number is refused at once; the others stay, and wait for process 2
    assert all(d.code != 0 for d in twice)
    assert sum("has refused this process: there are two processes 1" in d.out for d in twice) == 1
    assert sum("of 3 processes, [2] did not come" in d.out for d in twice) == 2, [
        d.out for d in twice]
    assert any("within 3 s; the job refused a connection from" in d.out for d in twice)
    assert "must be called before any calque computation" in late.out and FIX in late.out, late.out
    # an MPI that does not speak PMI-1, as Open MPI by hand: each process is a world of its own
    deaf = HEAD.replace("rank = int(os", "from calque.distributed import world\n"
                        "real = world._init\nworld._init = lambda variables: real({})\n"
                        "rank = int(os", 1)
    strangers, absent = together(
        lambda: by_hand("", 2, deaf, WAIT="8"),
        lambda: by_command(["env", "PMI_RANK=0", "PMI_SIZE=2", "MPI4PY_LIBMPI=/absent/libmpi.so",
                            sys.executable], ""))
    assert all(d.code != 0 for d in strangers)
    assert any("found a world of 1 processes, not of 2" in d.out and "does not speak PMI-1" in d.out
               and "start with mpiexec" in d.out for d in strangers), [d.out for d in strangers]
    assert absent.code != 0 and "mpi4py found no MPI library" in absent.out, absent.out
    assert "Fix: pip install mpich" in absent.out, absent.out


@pytest.mark.slow
def test_twenty_jobs_after_kills() -> None:
    before = segments()
    for k in range(20):
        done = by_hand(f"""
            mu.sync_global_devices("start")
            if {k} % 2 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            mu.process_allgather(1.0)
        """, 2)
        assert (done[0].code == 0) == (k % 2 == 0), done[0].out
    assert segments() <= before


def test_a_thread_that_is_not_the_guards() -> None:
    """Threads of a process may call in another order than those of the others."""
    done = by_hand("""
        import threading
        from calque.sharding import NamedSharding, PartitionSpec as P
        refused = []
        mesh = jax.make_mesh((size,), ("p",))
        xs = jax.make_array_from_process_local_data(NamedSharding(mesh, P("p")), np.ones(1, "f4"))
        total = jax.jit(lambda x: x.sum())
        calls = [lambda: mu.process_allgather(1.0), lambda: float(total(xs))]
        def call():
            try:
                for f in calls:
                    f()
            except RuntimeError as error:
                refused.append(str(error))
        with jax.thread_guard(True):
            for f in calls:
                calls = [f]
                thread = threading.Thread(target=call)
                thread.start()
                thread.join()
            assert len(refused) == 2 and all("thread_guard" in r for r in refused), refused
            assert mu.process_allgather(2.0).sum() == 4 and float(total(xs)) == 2
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert len(refused) == 2, refused
    """, 2)
    assert [d.code for d in done] == [0, 0], done
