"""Traces and memory profiles: what is in the files, by the message classes of others."""
from __future__ import annotations

import functools
import gc
import gzip
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from support.traces import read, the_file

import calque
import calque.numpy as jnp
from calque import profiler
from calque.profiler import perfetto, recorder, wire
from calque.runtime import watch


def test_what_a_program_does(tmp_path) -> None:
    """Tracing, lowering, compiling by stage, loading, queueing, waiting, running; and its flows."""
    seen = []

    @calque.jit
    def wave(x):
        calque.debug.callback(seen.append, x.sum())
        return jnp.sin(x) * 1.25 + len(seen)

    big = jnp.asarray(np.ones((1500, 1500), np.float32))  # its product is not there at once

    @calque.jit
    def product(x):
        return x @ x + 0.0712

    os.environ["CALQUE_CACHE"] = "0"
    try:
        with profiler.trace(tmp_path / "new" / "folder"):
            with profiler.StepTraceAnnotation("train", step_num=np.int64(3), loss=0.5, tag="a"):
                y = wave(jnp.ones(3))
                z = product(product(big))
                z.block_until_ready()
    finally:
        del os.environ["CALQUE_CACHE"]
    made = read(the_file(tmp_path / "new" / "folder"))
    main = made.tracks[threading.main_thread().name]
    (step,) = main
    assert step.name == "train 3" and step.args == {"step_num": 3, "loss": 0.5, "tag": "a"}
    (call,) = made.named("wave", "call")
    assert call in step.inner
    steps = [s.category for s in call.inner]
    assert [c for c in steps if c != "transfer"] == ["trace", "lower", "compile", "load", "run"]
    (compiling,) = [s for s in call.inner if s.category == "compile"]
    stages = calque.lowering.compiler.compile.STAGES
    assert [s.name for s in compiling.inner] == list(stages), \
        "IREE's stages, in their order, within the compile"
    (run,) = [s for s in call.inner if s.category == "run"]
    assert [s.category for s in run.inner] == ["callback"]
    # its run on the device, to which the call leads
    (there,) = made.named("wave", "inline")
    assert call.leads == there.ends_flows and there.track.startswith("cpu:0 runs")
    # queued: the second call waits for the first one's result
    first, second = made.named("product", "queued")
    calls = made.named("product", "call")
    assert [c.leads for c in calls] == [first.ends_flows, second.ends_flows]
    assert [s.name for s in second.inner] == ["waits for arguments", "runs"]
    assert second.inner[1].start >= first.end > first.start
    (wait,) = [s for s in step.inner if s.category == "wait"]
    assert wait.start < second.end
    assert made.parents[there.track] == "cpu:0" and made.parents["cpu:0"] == "process"
    assert len(y) == 3


def test_threads_exceptions_and_nested_annotations(tmp_path) -> None:
    """Each thread has its track; an exception ends its slices; calls compile in a second thread."""
    @profiler.annotate_function
    def failing(x):
        """Fails."""
        raise ValueError("on purpose")

    named = functools.partial(profiler.annotate_function, name="named", kind=2)(lambda x: x + 1)
    assert failing.__name__ == "failing" and failing.__doc__ == "Fails."
    meet, go = threading.Event(), threading.Event()

    def other(i: int) -> None:
        with profiler.TraceAnnotation(f"thread {i}"):
            calque.jit(lambda x: x * (0.7123 + i))(jnp.ones(2))
        if i == 1:
            with profiler.TraceAnnotation("left open"):
                meet.set()
                go.wait()

    threads = [threading.Thread(target=other, args=(i,), name=f"worker-{i}") for i in range(3)]
    same = profiler.TraceAnnotation("again")
    with profiler.trace(tmp_path):
        for t in threads:
            t.start()
        with pytest.raises(ValueError, match="on purpose"), profiler.TraceAnnotation("outer"):
            failing(1)
        with same, same:  # one object within itself
            assert named(1) == 2
        one, two = profiler.TraceAnnotation("one"), profiler.TraceAnnotation("two")
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)  # in the wrong order
        two.__exit__(None, None, None)
        for t in (threads[0], threads[2]):
            t.join()
        meet.wait()
    go.set()
    threads[1].join()
    made = read(the_file(tmp_path))
    assert {f"worker-{i}" for i in range(3)} <= set(made.tracks)
    for i in range(3):
        (outer,) = made.named(f"thread {i}")
        assert outer.track == f"worker-{i}" and "compile" in {s.category for s in outer.every}
    (outer,) = made.named("outer")
    assert [s.name for s in outer.inner] == ["failing"]
    first, second = made.named("again")
    assert second in first.inner and made.named("named") == second.inner
    assert second.inner[0].args == {"kind": 2}
    (cut,) = made.named("left open")
    assert cut.args == {"unfinished": True}
    assert made.named("one")[0].inner == made.named("two")


def test_starting_twice_stopping_and_folders(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="(?s)No profile started.*\n  Fix: "):
        profiler.stop_trace()
    with profiler.trace(str(tmp_path)):
        with pytest.raises(RuntimeError, match="(?s)Profile has already been started.*\n  Fix: "):
            profiler.start_trace(tmp_path)
    with pytest.raises(KeyError), profiler.trace(tmp_path):
        raise KeyError("it is written all the same")
    files = sorted(tmp_path.glob("*.perfetto-trace"))
    assert len(files) == 2 and all(not read(f).slices for f in files)
    plain = tmp_path / "file"
    plain.write_text("")
    with pytest.raises(OSError, match="(?s)cannot be written into.*Fix: "):
        profiler.start_trace(plain)
    with pytest.raises(TypeError):
        profiler.start_trace(3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="ui.perfetto.dev"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    with pytest.raises(TypeError, match="profiler_options"):
        profiler.start_trace(tmp_path, profiler_options={})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a str"):
        profiler.TraceAnnotation(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expected a callable"):
        profiler.annotate_function("f")  # type: ignore[arg-type]
    assert not watch.watchers
    profiler.start_trace(tmp_path)  # whatever failed left nothing behind
    shutil.rmtree(tmp_path)
    profiler.stop_trace()  # the folder is made again
    assert not read(the_file(tmp_path)).slices
    profiler.start_trace(tmp_path)
    shutil.rmtree(tmp_path)
    tmp_path.write_text("a file where the folder was")
    with pytest.raises(OSError):
        profiler.stop_trace()
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()


def test_a_trace_that_ends_while_a_call_is_open_and_one_that_begins_there(tmp_path) -> None:
    f = calque.jit(lambda x: calque.pure_callback(
        toggle, calque.ShapeDtypeStruct((), np.float32), x))

    def toggle(x):
        (profiler.stop_trace if watch.watchers else functools.partial(
            profiler.start_trace, tmp_path))()
        return np.float32(x)

    assert [float(f(1.0)) for _ in range(2)] == [1.0, 1.0]  # starts within one, stops in the next
    made = read(the_file(tmp_path))
    (call,) = [s for s in made.slices if s.category == "call"]
    assert call.args == {"unfinished": True}
    assert not watch.watchers


def test_options(tmp_path) -> None:
    options = profiler.ProfileOptions()
    options.host_tracer_level, options.session_id = 1, "mine"
    options.enable_hlo_proto, options.advanced_configuration = False, {"gpu_thing": 1}
    f = calque.jit(lambda x: x + 1)

    def work():
        with profiler.TraceAnnotation("shown"):
            f(1.0)

    with profiler.trace(tmp_path, create_perfetto_trace=True, profiler_options=options):
        work()
    assert the_file(tmp_path).name == "mine.perfetto-trace"
    made = read(the_file(tmp_path))
    assert {s.category for s in made.slices} == {"annotation", "inline"}
    options.host_tracer_level, options.session_id = 2, "all"
    options.python_tracer_level = 1
    with profiler.trace(tmp_path, profiler_options=options):
        work()
    made = read(tmp_path / "all.perfetto-trace")
    (called,) = [s for s in made.slices if s.category == "python" and s.name.endswith("work")]
    assert [s.name for s in called.inner] == ["shown"]
    assert called.args["file"] == __file__
    assert sys.getprofile() is None
    options.host_tracer_level = 0
    options.python_tracer_level = 0
    for name, value, error in (
            ("host_tracer_level", 7, ValueError), ("python_tracer_level", 2, ValueError),
            ("session_id", "a/b", ValueError), ("session_id", 3, ValueError),
            ("duration_ms", 10, NotImplementedError), ("nothing", 1, AttributeError)):
        with pytest.raises(error):
            setattr(options, name, value)
    sys.setprofile(lambda *_: None)
    try:
        options.python_tracer_level = 1
        with pytest.raises(RuntimeError, match="another profiler is at work"):
            profiler.start_trace(tmp_path, profiler_options=options)
    finally:
        sys.setprofile(None)
    assert not watch.watchers and len(list(tmp_path.glob("*.perfetto-trace"))) == 2


def test_more_slices_than_are_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(recorder, "MOST_SLICES", 3)
    with pytest.warns(RuntimeWarning, match="2 slices after the first"):
        with profiler.trace(tmp_path):
            for i in range(5):
                with profiler.TraceAnnotation(str(i)):
                    pass
    assert [s.name for s in read(the_file(tmp_path)).slices] == ["0", "1", "2"]


def test_a_run_that_fails_and_queued_copies(tmp_path) -> None:
    x = jnp.eye(1500)
    donating = calque.jit(lambda v: v * 2 + 1.5, donate_argnums=0)
    donating(x @ x)
    with profiler.trace(tmp_path):
        y = x
        for _ in range(6):  # so long that y is not there when it is copied
            y = y @ x
        shared = y.reshape(2_250_000)  # the same memory: donating it copies first
        z = donating(y)
        z.block_until_ready()
        assert float(shared[0]) == 1
    made = read(the_file(tmp_path))
    assert made.named("copy on cpu:0", "queued")
    semaphore = recorder.Run("f", "cpu:0", "queued", 1, 1, _Failed())
    semaphore.look()
    assert semaphore.failed and semaphore.end


def test_devices_and_runs_that_overlap(tmp_path) -> None:
    """A track for each device; runs beside each other are in lanes of it."""
    made = recorder.Recorder()
    made.started, made.stopped = 1, 100
    for device, start, ready, end in (("cuda:0", 10, 20, 50), ("cuda:0", 12, 50, 60),
                                      ("cuda:0", 50, 50, 0), ("cuda:1", 11, 11, 13)):
        run = recorder.Run(f"f{start}", device, "queued", start, 0)
        run.ready, run.end = ready, end
        made.runs.append(run)
    path = tmp_path / "a"
    path.write_bytes(perfetto.trace_of(made, None))
    trace = read(path)
    assert {n: [s.name for s in t] for n, t in trace.tracks.items()} == {
        "cuda:0 runs": ["f10", "f50"], "cuda:0 runs, beside (2)": ["f12"], "cuda:1 runs": ["f11"]}
    assert trace.parents["cuda:0 runs"] == trace.parents["cuda:0 runs, beside (2)"] == "cuda:0"
    assert [(s.name, s.start, s.end) for s in trace.named("f12")[0].inner] == [
        ("waits for arguments", 12, 50), ("runs", 50, 60)]
    assert trace.named("f50")[0].args == {"road": "queued", "unfinished": True}
    assert trace.named("f50")[0].end == 100


class _Failed:
    """A semaphore whose work failed."""

    def query(self) -> int:
        raise RuntimeError("ABORTED")


def test_processes_forked_and_ended_with_a_trace_on(tmp_path) -> None:
    """A child has no trace; a process that ends without stop_trace says so and leaves nothing."""
    code = textwrap.dedent(f"""
        import os, calque
        from calque import profiler
        from calque.runtime import watch
        profiler.start_trace({str(tmp_path)!r})
        if (child := os.fork()) == 0:
            try:
                profiler.stop_trace()
            except RuntimeError:
                os._exit(7 if not watch.watchers else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "was not stopped" in done.stderr and "Fix: " in done.stderr
    assert not list(tmp_path.iterdir())


def test_varints() -> None:
    from google.protobuf.internal import encoder
    for n in (0, 1, 127, 128, 300, (1 << 63) - 1, (1 << 64) - 1):
        assert wire.varint(n) == encoder._VarintBytes(n)
    out: list[bytes] = []
    encoder._SignedVarintEncoder()(out.append, -5, False)
    assert wire.varint(-5) == b"".join(out)


# ---- memory
def _profile_class():
    """pprof's Profile, from the fields of github.com/google/pprof/proto/profile.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="pprof",
                                              syntax="proto3")
    fields = {
        "ValueType": "type:1 unit:2",
        "Label": "key:1 str:2 num:3 num_unit:4",
        "Sample": "location_id:1* value:2* label:3*Label",
        "Mapping": "id:1 memory_start:2 memory_limit:3 file_offset:4 filename:5 build_id:6",
        "Line": "function_id:1 line:2",
        "Location": "id:1 mapping_id:2 address:3 line:4*Line",
        "Function": "id:1 name:2 system_name:3 filename:4 start_line:5",
        "Profile": "sample_type:1*ValueType sample:2*Sample mapping:3*Mapping location:4*Location "
                   "function:5*Function string_table:6*$ drop_frames:7 keep_frames:8 "
                   "time_nanos:9 duration_nanos:10 period_type:11-ValueType period:12"}
    unsigned = {"location_id", "id", "mapping_id", "function_id"}
    F = descriptor_pb2.FieldDescriptorProto
    for name, text in fields.items():
        message = file.message_type.add(name=name)
        for part in text.split():
            field, _, rest = part.partition(":")
            number = rest.rstrip("*-$ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
            kind = rest[len(number):].lstrip("*-")
            made = message.field.add(
                name=field, number=int(number.rstrip("*-")),
                label=F.LABEL_REPEATED if "*" in rest else F.LABEL_OPTIONAL)
            if kind == "$":
                made.type = F.TYPE_STRING
            elif kind:
                made.type, made.type_name = F.TYPE_MESSAGE, f".pprof.{kind}"
            else:
                made.type = F.TYPE_UINT64 if field in unsigned else F.TYPE_INT64
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pprof.Profile"))


def _samples(raw: bytes):
    """(labels, count, bytes, file names with lines) of a profile, which holds together."""
    profile = _profile_class()()
    profile.ParseFromString(gzip.decompress(raw))
    texts = list(profile.string_table)
    assert texts[0] == "" and profile.time_nanos > 0
    assert [(texts[t.type], texts[t.unit]) for t in profile.sample_type] == [
        ("allocations", "count"), ("space", "bytes")]
    functions = {f.id: texts[f.filename] for f in profile.function}
    places = {p.id: (functions[p.line[0].function_id], p.line[0].line) for p in profile.location}
    return [({texts[s.key]: texts[s.str] for s in sample.label}, *sample.value,
             [places[i] for i in sample.location_id]) for sample in profile.sample]


def test_memory_by_device_type_and_place(tmp_path) -> None:
    tracemalloc.start(25)
    try:
        held = [calque.jit(lambda x: x * 3)(np.ones((97, 3), np.float32)) for _ in range(4)]
        line = test_memory_by_device_type_and_place.__code__.co_firstlineno + 3
        shared = held[0].reshape(291)  # the same memory, once in the profile
        gone = jnp.ones((97, 3))
        gone.delete()
        raw = profiler.device_memory_profile()
    finally:
        tracemalloc.stop()
    mine = [s for s in _samples(raw) if s[0].get("type") == "float32[97,3]"]
    assert sum(n for _, n, _, _ in mine) in (3, 4) and sum(b for _, _, b, _ in mine) % 1164 == 0
    total = [s for s in _samples(raw) if s[0].get("type") in ("float32[97,3]", "float32[291]")]
    assert sum(n for _, n, _, _ in total) == 4 and sum(b for _, _, b, _ in total) == 4 * 1164
    assert all(s[0]["kind"] == "buffer" and s[0]["device"] == "cpu:0" for s in mine)
    assert any(s[3] and s[3][0] == (__file__, line) for s in mine)
    assert any(s[0]["kind"] == "executable" and s[2] > 1000 for s in _samples(raw))
    del held, shared
    gc.collect()
    profiler.save_device_memory_profile(tmp_path / "memory.pb.gz", "cpu")
    later = _samples((tmp_path / "memory.pb.gz").read_bytes())
    assert not [s for s in later if s[0].get("type") in ("float32[97,3]", "float32[291]")]
    with pytest.raises(RuntimeError, match="Unknown backend"):
        profiler.device_memory_profile("abacus")
    with pytest.raises(FileNotFoundError):
        profiler.save_device_memory_profile(tmp_path / "none" / "memory.pb.gz")


def fields(raw: bytes) -> list[tuple[int, Any]]:
    """The fields of a message of protocol buffers, read by hand."""
    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (raw[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if raw[at - 1] < 128:
                return value, at
    at, found = 0, []
    while at < len(raw):
        key, at = number(at)
        value: Any
        if key & 7 == 2:
            size, at = number(at)
            value, at = raw[at:at + size], at + size
        elif key & 7 == 1:
            value, at = raw[at:at + 8], at + 8
        else:
            value, at = number(at)
        found.append((key >> 3, value))
    return found


def test_what_tensorboard_reads(tmp_path) -> None:
    before = time.time_ns()
    with profiler.trace(tmp_path):
        with profiler.StepTraceAnnotation("train", step_num=3):
            calque.jit(lambda x: x + 1)(jnp.ones(3)).block_until_ready()
    (path,) = (tmp_path / "plugins" / "profile").glob("*/*.xplane.pb")
    planes = {}
    for field, plane in fields(path.read_bytes()):
        assert field == 1
        parts = fields(plane)
        names = {n: dict(fields(dict(fields(v))[2]))[2].decode()
                 for k, v in parts if k == 4 for n in [dict(fields(v))[1]]}
        planes[dict(parts)[2].decode()] = [
            (dict(line)[3] + event[2] // 1000, names[event[1]], event[3], event.get(4))
            for k, v in parts if k == 3 for line in [fields(v)]
            for j, e in line if j == 4 for event in [dict(fields(e))]]
    assert set(planes) == {"/host:CPU", "/device:CPU:0"}
    (start, _, length, stat), = (e for e in planes["/host:CPU"] if e[1] == "train 3")
    assert before <= start <= time.time_ns() and 0 < length <= 1000 * (time.time_ns() - start)
    assert dict(fields(stat))[4] == 3
    runs = [e for e in planes["/device:CPU:0"] if e[1] == "<lambda>"]
    assert len(runs) == 1 and start <= runs[0][0]
