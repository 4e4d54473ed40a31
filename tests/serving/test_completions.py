"""POST /v1/completions: tokens equal the models' own generator, streams, text, errors."""
from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
from support.serving import Client, once, server, together

from calque import models
from calque.runtime.serving.text import Decoder

PROMPTS = [[3, 1, 4, 1, 5, 9, 2], [7, 8], [1] * 15, [2, 3, 4], [9] * 5, [11]]
PATH = "/v1/completions"


class Letters:
    """A tokenizer of a letter a token."""

    def encode(self, text: str) -> Any:
        return SimpleNamespace(ids=[(ord(c) - 97) % 32 for c in text])

    def decode(self, tokens: Any) -> str:
        return "".join(chr(97 + t) for t in tokens)


@pytest.fixture(scope="module")
def running(model):
    with server(model, Letters(), sessions=2) as (_, found):
        yield found


@pytest.fixture
def client(running):
    made = Client(running.url)
    yield made
    made.connection.close()


def wanted(model: Any, prompt: list[int], most: int, **how: Any) -> list[int]:
    """What the generator gives, alone."""
    return list(models.generate(model.session(), prompt, most=most, **how))


def asked(running: Any, **body: Any) -> Any:
    return lambda: once(running).json("POST", PATH, {"temperature": 0, **body})


def events(client: Client, **body: Any) -> list[Any]:
    status, data, headers = client.send("POST", PATH, {"stream": True, "temperature": 0, **body})
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    lines = data.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


@pytest.mark.parametrize("how", [{}, {"temperature": 1.0, "top_k": 9, "top_p": 0.9, "seed": 5}],
                         ids=["greedy", "drawn"])
def test_sequences_together_are_those_of_the_generator(running, client, model, how):
    """More than there are places, of several lengths: each is what it is when it runs alone."""
    before = client.metric("calque_decode_steps_total")
    made = together([asked(running, prompt=p, max_tokens=9, **how) for p in PROMPTS])
    tokens = [wanted(model, p, 9, **how) for p in PROMPTS]
    assert [m["choices"][0]["token_ids"] for _, m in made] == tokens
    assert [m["usage"]["completion_tokens"] for _, m in made] == [*map(len, tokens)]
    assert all(m["choices"][0]["finish_reason"] == "length" for _, m in made)
    steps = client.metric("calque_decode_steps_total") - before
    assert steps < sum(map(len, tokens)), "a step goes on with several"
    client.wait_for("calque_running", 0)


def test_a_stream_is_the_answer_in_parts(client, model):
    parts = events(client, prompt=[*PROMPTS[:2]], max_tokens=5,
                   stream_options={"include_usage": True})
    assert {p["id"] for p in parts} == {parts[0]["id"]}
    assert parts[-1]["usage"] == {"prompt_tokens": 9, "completion_tokens": 10, "total_tokens": 19}
    for i in (0, 1):
        choices = [c for p in parts for c in p["choices"] if c["index"] == i]
        assert [t for c in choices for t in c["token_ids"]] == wanted(model, PROMPTS[i], 5)
        assert [c["finish_reason"] for c in choices][-2:] == [None, "length"]


def test_text_and_strings_that_end_it(client, model):
    tokens = wanted(model, [0, 1, 2], 8)
    text = Letters().decode(tokens)
    status, made = client.json("POST", PATH, {"prompt": "abc", "max_tokens": 8, "temperature": 0,
                                              "model": "file", "user": "me"})
    assert status == 200 and made["choices"][0]["text"] == text
    end = text[3:5]
    cut = text[:text.index(end)]
    made = client.json("POST", PATH, {"prompt": "abc", "max_tokens": 8, "temperature": 0,
                                      "stop": [end, "never"]})[1]["choices"][0]
    assert made["text"] == cut and made["finish_reason"] == "stop"
    parts = events(client, prompt="abc", max_tokens=8, stop=end)
    assert "".join(c["text"] for p in parts for c in p["choices"]) == cut
    made = client.json("POST", PATH, {"prompt": "abc", "max_tokens": 8, "temperature": 0,
                                      "stop_token_ids": [tokens[2]]})[1]["choices"][0]
    assert made["token_ids"] == tokens[:tokens.index(tokens[2])]
    assert made["finish_reason"] == "stop"
    client.wait_for("calque_running", 0)


def test_the_caches_may_be_filled(client, model):
    made = client.json("POST", PATH, {"prompt": [1] * 20, "temperature": 0, "max_tokens": 5})[1]
    assert made["choices"][0]["token_ids"] == wanted(model, [1] * 20, 5)
    status, made = client.json("POST", PATH, {"prompt": [1] * 20, "max_tokens": 6})
    assert status == 400 and "room for 24" in made["error"]["message"]
    made = client.json("POST", PATH, {"prompt": [1] * 24, "temperature": 0})[1]
    assert len(made["choices"][0]["token_ids"]) == 1


def test_a_client_that_goes_leaves_its_place(running, client):
    for _ in range(4):
        gone = Client(running.url)
        gone.connection.request("POST", PATH, json.dumps(
            {"prompt": [1], "max_tokens": 24, "stream": True}))
        gone.connection.close()
    client.wait_for("calque_running", 0)
    assert client.json("POST", PATH, {"prompt": [1], "max_tokens": 1})[0] == 200


def test_a_failure_ends_what_is_under_way_and_nothing_else(model):
    with server(model) as (client, running):
        tokens = wanted(model, [5, 6], 4)
        (worker,) = running.served.generator.engine.workers
        session = worker.session

        def call(name: str, *args: Any) -> Any:
            if name == "decode":
                raise RuntimeError("no memory")
            return session.call(name, *args)
        worker.session = SimpleNamespace(call=call, read=session.read, write=session.write)
        status, made = client.json("POST", PATH, {"prompt": [5, 6], "max_tokens": 4})
        assert status == 500 and "the model failed: RuntimeError: no memory" in made["error"][
            "message"]
        for _ in range(2):
            made = client.json("POST", PATH, {"prompt": [5, 6], "max_tokens": 4, "temperature": 0})
            assert made[1]["choices"][0]["token_ids"] == tokens


WRONG: list[tuple[Any, str]] = [
    (b"{", "the body is no JSON"), ([], "no object"), ({}, "prompt is None"),
    ({"prompt": 3}, "prompt is 3"), ({"prompt": []}, "prompt is []"),
    ({"prompt": [1, "a"]}, "prompt is [1, 'a']"), ({"prompt": [[1], []]}, "no tokens"),
    ({"prompt": ""}, "no tokens"), ({"prompt": [32]}, "the token 32"),
    ({"prompt": [-1]}, "the token -1"), ({"prompt": [1] * 30}, "30 tokens"),
    ({"prompt": [[1]] * 300}, "300 prompts"), ({"prompt": "\ud800"}, "half a pair"),
    ({"promt": "a"}, "there is no setting 'promt'"),
    ({"prompt": "a", "max_tokens": 0}, "max_tokens is 0"),
    ({"prompt": "a", "max_tokens": 1.5}, "max_tokens is 1.5"),
    ({"prompt": "a", "max_tokens": 10**30}, "max_tokens is 1000"),
    ({"prompt": "a", "temperature": -1}, "temperature is -1"),
    ({"prompt": "a", "temperature": float("nan")}, "temperature is nan"),
    ({"prompt": "a", "top_p": 0}, "top_p is 0"), ({"prompt": "a", "top_k": -1}, "top_k is -1"),
    ({"prompt": "a", "seed": 2**40}, "seed is"), ({"prompt": "a", "stop": [""]}, "stop is ['']"),
    ({"prompt": "a", "stop_token_ids": "a"}, "stop_token_ids is 'a'"),
    ({"prompt": "a", "stream": 1}, "stream is 1"), ({"prompt": "a", "n": 2}, "n is 2"),
    ({"prompt": "a", "logprobs": 1}, "logprobs is 1"),
    ({"prompt": "a", "stream_options": 3}, "stream_options are 3")]


@pytest.mark.parametrize("body, said", WRONG, ids=[str(b)[:40] for b, _ in WRONG])
def test_what_is_wrong_is_said(client, body, said):
    status, data, _ = client.send("POST", PATH, body)
    error = json.loads(data)["error"]
    assert status == 400 and error["type"] == "invalid_request_error"
    assert said in error["message"] and "\n  Fix: " in error["message"]


def test_names_of_models_and_paths(client):
    assert client.json("GET", "/v1/models")[1]["data"][0]["id"] == "file"
    assert client.json("POST", PATH, {"model": "other", "prompt": "a"})[0] == 404
    status, made = client.json("POST", "/v2/models/decode/infer", {})
    assert status == 404 and "/v1/completions" in made["error"]


def test_mutated_bodies_never_end_the_server(client, model):
    draw = random.Random(1)
    plain = json.dumps({"prompt": [1, 2], "max_tokens": 2, "temperature": 0.5, "top_k": 3,
                        "stop": ["q"], "stream": False, "seed": 1}).encode()
    for _ in range(200):
        body = bytearray(plain)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(body))
            body[at:at + draw.randrange(3)] = draw.choice(
                [b"", b"null", b"-1", b"1e999", b"NaN", b"[]", b"{", b"true", b'"', b"9" * 40,
                 bytes([draw.randrange(256)])])
        status, data, _ = client.send("POST", PATH, bytes(body))
        assert status in (200, 400), (bytes(body), data)
    made = client.json("POST", PATH, {"prompt": [7, 8], "max_tokens": 3, "temperature": 0})[1]
    assert made["choices"][0]["token_ids"] == wanted(model, [7, 8], 3)


def test_half_characters_are_held_back():
    class Bytes:
        def decode(self, tokens: Any) -> str:
            return bytes(tokens).decode(errors="replace")
    text = "na\u00efve \U0001f600!"
    decoder = Decoder(Bytes())
    parts = [decoder.push(b) for b in text.encode()]
    assert "".join(parts) + decoder.finish() == text and "\ufffd" not in "".join(parts)
    decoder = Decoder(Bytes(), ["stop"])
    parts = [decoder.push(b) for b in b"a sto"]
    assert parts == ["a", " ", "", "", ""] and decoder.finish() == "sto"
    decoder = Decoder(Bytes())
    assert decoder.push(0xf0) == "" and decoder.finish() == "\ufffd"
