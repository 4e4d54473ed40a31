"""What a server counts, as Prometheus reads it: GET /metrics.

Each server has a registry of its own.  Start reading at `Metrics`.
"""
from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one server.

    Attributes:
      requests: by model and HTTP's status.
      latency: seconds from a request's arrival to its answer, by model.
      runs, batch_rows, run_seconds: calls of functions, their rows, how long they took.
      waiting, running: requests in the queue, calls and sequences under way.
      tokens: by kind, prompt or generated.
      first_token: seconds to the first token of a completion.
      steps: calls of decode.

    Example:
      >>> from calque.runtime.serving.metrics import Metrics
      >>> metrics = Metrics()
      >>> metrics.requests.labels("f", "200").inc()
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("calque_requests", "Requests that were answered",
                                ["model", "status"], registry=registry)
        self.latency = Histogram("calque_request_seconds", "From arrival to answer", ["model"],
                                 buckets=_SECONDS, registry=registry)
        self.runs = Counter("calque_runs", "Calls of functions", ["model"], registry=registry)
        self.batch_rows = Histogram("calque_batch_rows", "Rows of a call", ["model"],
                                    buckets=_ROWS, registry=registry)
        self.batch_requests = Histogram("calque_batch_requests", "Requests of a call", ["model"],
                                        buckets=_ROWS, registry=registry)
        self.run_seconds = Histogram("calque_run_seconds", "Of a call", ["model"],
                                     buckets=_SECONDS, registry=registry)
        self.waiting = Gauge("calque_queue_length", "Requests that wait", registry=registry)
        self.running = Gauge("calque_running", "Calls and sequences under way", registry=registry)
        self.tokens = Counter("calque_tokens", "Tokens of completions", ["kind"],
                              registry=registry)
        self.first_token = Histogram("calque_first_token_seconds", "To the first token",
                                     buckets=_SECONDS, registry=registry)
        self.steps = Counter("calque_decode_steps", "Calls of decode", registry=registry)
        self.step_sequences = Histogram("calque_decode_sequences", "Sequences of a call of decode",
                                        buckets=_ROWS, registry=registry)

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)
