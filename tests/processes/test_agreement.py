"""Processes that ask each other for different things hear of it within seconds, all of them; one
that is slow, or strangers at the port, end nothing."""
from __future__ import annotations

import time
from pathlib import Path

import pytest
from jobs import Ended, by_hand, free_port, together
from test_faults import PROGRAM

KNOWN = PROGRAM + """
        import atexit
        f, g = mapped(loss_step), mapped(other_step)
        big = jax.device_put(np.ones((n, 1 << 20), np.float32), x.sharding)
        jax.block_until_ready((f(x), g(x)))
        mu.sync_global_devices("known")
        begun = time.time()
        atexit.register(lambda: print("AFTER", time.time() - begun, flush=True))
"""
FAST = "0"  # CALQUE_CHECK: tests run with it, and then every message is compared when it is sent
SECONDS = 12.0  # (2 to 3 where the machine is idle)


def differ(done: list[Ended], *words: str) -> None:
    """All have ended in time, with an error that names what each did."""
    for d in done:
        assert d.code != 0 and "the processes do different things" in d.out, d.out
        assert "Fix: make all processes run the same calls in one order" in d.out, d.out
        assert all(w in d.out for w in words), d.out
        assert float(d.out.split("AFTER")[1].split()[0]) < SECONDS, d.out


STRANGERS = """
        import json, socket, threading
        port = int(os.environ["ADDRESS"].split(":")[1])
        from calque.distributed.control import versions
        said = [b"", b"GET / HTTP/1.1\\r\\n", os.urandom(3000), b"{" * 100000, b"cmd=barrier_in\\n",
                b"cmd=initack pmiid=1\\ncmd=put key=P0-businesscard value=x\\n", *[
                    json.dumps({"rank": r, "size": s, "host": "x", "versions": v}).encode() + b"\\n"
                    for r in (0, 1, 7) for s in (2, 3) for v in ({}, versions())]]
        held = []
        def visit():
            for k in range(300):
                try:
                    c = socket.create_connection(("localhost", port), timeout=1)
                    c.sendall(said[k % len(said)])
                    held.append(c) if k % 2 else c.close()
                except OSError:
                    pass
                time.sleep(1e-3)
"""


def test_a_slow_process_with_strangers_is_right_and_a_call_more_is_not() -> None:
    done = by_hand(KNOWN + STRANGERS + """
        visitor = threading.Thread(target=visit)
        visitor.start()
        for k in range(30):
            f(x), mu.process_allgather(k)
            time.sleep(1.6 if k == 20 and rank else 0.01 * (k % 5 == rank))
        visitor.join()
        assert f(x).addressable_shards[0].data.tolist() == [[2.0] * 4]
        print("WELL", flush=True)
        begun = time.time()
        if rank:  # of what both know: nobody answers
            f(x)
        mu.process_allgather(1)
    """, 2, CALQUE_CHECK=FAST)
    differ(done, "WELL", "process 0 on", ": process_allgather of", "process 1 on",
           ": loss_step: reduce over d at loss_step (program.py:", "float32[1, 1, 4]",
           "cannot end")
    assert "refused a connection from 127.0.0.1:" in done[0].out, done[0].out
    assert "refused a connection" not in done[1].out


@pytest.mark.slow
@pytest.mark.parametrize(("body", "words"), [
    ("""
        (f if rank else g)(x)  # nobody waits; what comes out is wrong
     """, (": other_step: ", ": loss_step: ")),
    ("""
        while True:  # nobody waits, and it does not end
            jax.block_until_ready((f if rank else g)(x))
            time.sleep(1e-3)
     """, (": other_step: ", ": loss_step: ")),
    ("""
        y = f(big)[:, :4]
        jax.block_until_ready(f(y))
        f(x if rank else big)  # other shapes
        mu.process_allgather(1)
     """, ("float32[1, 1, 4]", "float32[1, 1, 1048576]")),
    ("""
        for h in (f, g) if rank else (g, f):
            jax.block_until_ready(h(x))
     """, (": other_step: ", ": loss_step: ")),
    ("""
        jax.block_until_ready((f(big), g(big)))
        found = [(f if rank and i == 7 else g)(big) for i in range(20)]  # queued; nobody reads
        time.sleep(3)
     """, (": other_step: ", ": loss_step: ")),
    ("""
        def steps(v):
            def body(c):
                return c[0] + 1, lax.pmean(c[1], "d")
            return lax.while_loop(lambda c: c[0] < v[0, 0].astype(int), body, (0, v))[1]
        y = jax.make_array_from_process_local_data(x.sharding, np.full((1, 4), 3. + rank,
                                                                       np.float32))
        jax.block_until_ready(mapped(steps)(y))  # a message more in process 1
        mu.process_allgather(1)
     """, (": process_allgather of", ": steps: reduce over d at body (program.py:")),
    ("""
        x.sum() + 1, x.max() + 1
        y = x.sum() if rank else x.max()  # eager
        mu.process_allgather(1)
     """, (": max: reduce over d", ": sum: reduce over d")),
    ("""
        h = mapped(lambda v: v - lax.psum(v, "d"))
        jax.block_until_ready(h(x) if rank else f(x))  # one of them runs for the first time
     """, (": <lambda>, which sends 1 messages", ": loss_step: reduce over d")),
    ("""
        mu.sync_global_devices("here") if rank else jax.block_until_ready(f(x))
     """, (": assert_equal of", ": loss_step: reduce over d")),
    ("""
        def bad(v):
            if rank:
                raise KeyError("mine")
            return v
        h = mapped(lambda v: lax.pmean(jax.pure_callback(
            bad, jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method="sequential"), "d"))
        try:
            jax.block_until_ready(h(f(big)))
        except KeyError:  # and it goes on
            pass
        jax.block_until_ready(f(big))
        mu.process_allgather(1)
     """, (": <lambda>, which sends 1 messages", ": loss_step: reduce over d"))])
def test_each_kind_of_difference(body: str, words: tuple[str, ...]) -> None:
    differ(by_hand(KNOWN + body, 2, CALQUE_CHECK=FAST), *words)


@pytest.mark.slow
def test_a_call_more_where_messages_are_checked() -> None:
    differ(by_hand(KNOWN + """
        if rank:
            f(x)
        mu.process_allgather(1)
    """, 2, CALQUE_CHECK="1"), ": process_allgather of", ": loss_step: reduce over d")


@pytest.mark.slow
def test_programs_over_some_processes() -> None:
    """Others need not know of these; in crossed order they are found."""
    pair = KNOWN + """
        two = Mesh(np.array(jax.devices()[:2]), ("d",))
        if rank < 2:
            y = jax.device_put(np.ones((2, 4), np.float32), NamedSharding(two, P("d")))
            h = jax.jit(jax.shard_map(loss_step, mesh=two, in_specs=P("d"), out_specs=P("d")))
            assert h(y).addressable_shards[0].data.tolist() == [[2.0] * 4]
        assert f(x).addressable_shards[0].data.tolist() == [[2.0] * 4]
"""
    well = by_hand(pair, 3)
    assert [d.code for d in well] == [0, 0, 0], [d.out for d in well]
    crossed = by_hand(pair + """
        for k in (lambda: f(x), lambda: rank < 2 and h(y))[::-1 if rank == 1 else 1]:
            jax.block_until_ready(k())
    """, 3, CALQUE_CHECK=FAST)
    differ(crossed, ", between processes [0, 1, 2]", ", between processes [0, 1]")


@pytest.mark.slow
def test_names_of_places() -> None:
    done = by_hand("""
        fails(AssertionError, lambda: mu.sync_global_devices("left" if rank else "right"),
              "sync_global_devices name mismatch", "process 0: 'right'", "process 1: 'left'")
        mu.sync_global_devices("both")
    """, 2)
    assert [d.code for d in done] == [0, 0], [d.out for d in done]


@pytest.mark.slow
def test_thousands_at_every_port() -> None:
    """Also at those that MPI listens at in each process."""
    done = by_hand("""
        import socket, threading
        def listening():
            inodes = set()
            for fd in os.listdir("/proc/self/fd"):
                try:
                    inodes.add(os.readlink(f"/proc/self/fd/{fd}")[8:-1])
                except OSError:
                    pass
            rows = [line.split() for line in open("/proc/net/tcp")][1:]
            return [int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and r[9] in inodes]
        ports = [*listening(), int(os.environ["ADDRESS"].split(":")[1])]
        held = []
        def visit():
            for k in range(1000):
                for port in ports:
                    try:
                        c = socket.create_connection(("localhost", port), timeout=0.05)
                        c.sendall([b"", b"GET / HTTP/1.1\\r\\n", os.urandom(500)][k % 3])
                        held.append(c) if k % 8 == 0 else c.close()
                    except OSError:
                        pass
        visitor = threading.Thread(target=visit)
        visitor.start()
        k = 0
        while mu.process_allgather(visitor.is_alive()).any():
            k += 1
            assert mu.process_allgather(np.full(1000, k)).sum() == 2000 * k
        print("WELL", flush=True)
    """, 2)
    assert all(d.code == 0 and "WELL" in d.out for d in done), [d.out for d in done]


@pytest.mark.slow
def test_a_second_process_of_one_number(tmp_path: Path) -> None:
    """It is refused, and says what to do; the job does not end."""
    address, up, over = f"localhost:{free_port()}", tmp_path / "up", tmp_path / "over"

    def second() -> list[Ended]:
        while not up.exists():
            time.sleep(0.05)
        found = by_hand("", 2, ranks=[1], address=address)
        over.touch()
        return found

    job, (refused,) = together(lambda: by_hand("""
        open(os.environ["UP"], "w").close()
        while not mu.broadcast_one_to_all(os.path.exists(os.environ["OVER"])):
            time.sleep(0.01)
        print("WELL", flush=True)
    """, 2, address=address, UP=str(up), OVER=str(over)), second)
    assert all(d.code == 0 and "WELL" in d.out for d in job), [d.out for d in job]
    assert refused.code != 0 and f"the job at {address} has refused this process: there are two " \
        "processes 1: that on" in refused.out, refused.out
    assert "Fix: give each process its own process_id" in refused.out
    assert "refused a connection from 127.0.0.1:" in job[0].out, job[0].out
