"""What a server answers instead of a result: a status, and a message of three parts."""
from __future__ import annotations

from calque.runtime.errors import explain


class RequestError(ValueError):
    """A request that is not served, and the status that says why.

    Args:
      status: of HTTP: 400 wrong, 404 no such thing, 413 too large, 429 too many, 500 failed, 503
        ending.
      what: what is wrong.
      where: in which part of the request.
      fix: how to mend it.
      code: for programs; by default of the status.
      retry_after: seconds after which to ask again; None: asking again does not help.

    Example:
      >>> from calque.runtime.serving import RequestError
      >>> error = RequestError(404, "there is no model 'm'.", "/v2/models/m", "name one of: f.")
      >>> error.status, str(error).splitlines()[0]
      (404, "there is no model 'm'.")
    """

    def __init__(self, status: int, what: str, where: str = "", fix: str = "", *, code: str = "",
                 retry_after: int | None = None) -> None:
        super().__init__(explain(what, where, fix))
        self.status = status
        self.code = code or _CODES.get(status, "error")
        self.retry_after = retry_after


_CODES = {400: "invalid_request", 404: "not_found", 405: "method_not_allowed",
          413: "body_too_large", 429: "queue_full", 500: "run_failed", 503: "not_ready"}


def wrong(what: str, where: str, fix: str) -> RequestError:
    """A request that has a mistake in it: status 400."""
    return RequestError(400, what, where, fix)


def shown(value: object, most: int = 60) -> str:
    """A value of a request in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
