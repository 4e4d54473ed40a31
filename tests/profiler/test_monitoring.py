"""Listeners: which events calque sends, under the names that jax 0.10.2 sends them by."""
from __future__ import annotations

import time

import pytest

import calque
import calque.numpy as jnp
from calque import monitoring
from calque.core import monitoring as core

TRACE, LOWER, COMPILE = core.TRACE, core.LOWER, core.COMPILE


@pytest.fixture
def heard():
    events = []
    listeners = [lambda *e, kind=kind, **m: events.append((kind, *e, m))
                 for kind in ("event", "duration", "scalar", "span")]
    monitoring.register_event_listener(listeners[0])
    monitoring.register_event_duration_secs_listener(listeners[1])
    monitoring.register_scalar_listener(listeners[2])
    monitoring.register_event_time_span_listener(listeners[3])
    yield events
    monitoring.clear_event_listeners()


def kinds(events, kind):
    return [(e[1], e[-1].get("fun_name")) for e in events if e[0] == kind]


def test_events_of_a_jitted_call(heard, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CALQUE_CACHE_DIR", str(tmp_path))
    x = jnp.ones(3)
    inner = calque.jit(lambda x: x + 0.3125)

    @calque.jit
    def f(x):
        return inner(x) * 2

    heard.clear()
    before = time.time()
    f(x)
    after = time.time()
    whole = [(TRACE, "f"), (LOWER, "jit(f)"), (COMPILE, "jit(f)")]  # inner's trace is a part of f's
    assert kinds(heard, "duration") == kinds(heard, "scalar") == kinds(heard, "span") == whole
    cache = "/jax/compilation_cache/"
    events = [e[1] for e in heard if e[0] == "event"]
    assert [e for e in events if not e.endswith("tasks_using_cache")] == [
        cache + "compile_requests_use_cache", cache + "cache_misses"]
    for e in heard:
        if e[0] == "span":
            assert before <= e[2] <= e[3] <= after
            (took,) = [d[2] for d in heard if d[:2] == ("duration", e[1])]
            assert took == pytest.approx(e[3] - e[2], abs=1e-6)  # a float of seconds since 1970
            assert ("scalar", e[1], e[2], e[4]) in heard  # JAX's: when it began
    heard.clear()
    f(x)
    assert not heard
    calque.clear_caches()
    f(x)
    assert cache + "cache_hits" in [e[1] for e in heard if e[0] == "event"]
    assert cache + "cache_retrieval_time_sec" in [e[1] for e in heard if e[0] == "duration"]
    heard.clear()
    monkeypatch.setenv("CALQUE_CACHE", "0")
    calque.clear_caches()
    lowered = f.lower(x)
    assert kinds(heard, "duration") == whole[:1]
    lowered.compile()(x)
    assert kinds(heard, "duration") == whole and not kinds(heard, "event")
    heard.clear()
    calque.make_jaxpr(lambda x: x)(x)
    with pytest.raises(ZeroDivisionError):
        calque.jit(lambda x: 1 / 0)(x)
    assert kinds(heard, "duration") == [(TRACE, "<lambda>")]
    calque.make_jaxpr(lambda x: x)(x)
    assert len(kinds(heard, "duration")) == 2  # the failed one left nothing open


def test_events_of_ones_own() -> None:
    seen = []

    def listener(*event, **metadata):
        seen.append((*event, metadata))

    def failing(*_, **__):
        raise LookupError("a listener's")

    rows = [
        (monitoring.record_event, (), monitoring.register_event_listener,
         monitoring.unregister_event_listener),
        (monitoring.record_event_duration_secs, (1.5,),
         monitoring.register_event_duration_secs_listener,
         monitoring.unregister_event_duration_listener),
        (monitoring.record_scalar, (3,), monitoring.register_scalar_listener,
         monitoring.unregister_scalar_listener),
        (monitoring.record_event_time_span, (1.0, 2.0),
         monitoring.register_event_time_span_listener,
         monitoring.unregister_event_time_span_listener)]
    for record, values, register, unregister in rows:
        seen.clear()
        record("/nobody", *values)
        register(listener)
        register(listener)
        record("/twice", *values, size=3)
        unregister(listener)
        record("/once", *values)
        assert seen == [("/twice", *values, {"size": 3})] * 2 + [("/once", *values, {})]
        register(failing)
        with pytest.raises(LookupError):
            record("/fails", *values)
        unregister(failing)
        unregister(listener)
        with pytest.raises(AssertionError, match="is not registered"):
            unregister(listener)
        with pytest.raises(TypeError, match="must be a function"):
            register(3)
        register(failing)
        monitoring.clear_event_listeners()
        record("/nobody", *values)


def test_a_listener_that_fails_while_a_trace_begins() -> None:
    """Its error is the call's, and what is open is closed."""
    def failing(*_, **__):
        raise LookupError("a listener's")

    monitoring.register_scalar_listener(failing)
    try:
        with pytest.raises(LookupError):
            calque.make_jaxpr(lambda x: x)(1.0)
    finally:
        monitoring.unregister_scalar_listener(failing)
    seen = []
    monitoring.register_scalar_listener(lambda *e, **_: seen.append(e))
    calque.make_jaxpr(lambda x: x)(1.0)
    monitoring.clear_event_listeners()
    assert [e[0] for e in seen] == [TRACE]
