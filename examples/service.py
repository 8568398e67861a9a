"""A small service over HTTP: tags of words, trees, and missing cells of a table, each answer with its confidence.

    python examples/service.py                                 # trains toy models, serves them on 127.0.0.1:8000
    python examples/service.py --tagger t.loopwise --parser p.loopwise --pos tags.loopwise --table m.loopwise
    python examples/service.py --load 10000                    # serves, asks so often itself, says how fast it was
    curl -X POST 127.0.0.1:8000/tag -H 'content-type: application/json' -d '{"sentences": [["Ann", "ran"]]}'

Requests that come while others are answered wait and go together: a batch costs little more than a request. Models are
read once and shared by all threads, which only read them. Needs pip install 'loopwise[service]'.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import loopwise as lw

MOST_WORDS = 20_000  # of a request
MOST_TOGETHER = 256  # sentences or rows that are answered at once


class TooLargeError(ValueError):
    """A request that would keep all others waiting."""


# --- Models ----------------------------------------------------------------------------------------------------------


@dataclass
class Models:
    """What is served; None: not."""

    tagger: lw.apps.Tagger | None = None
    parser: Any = None
    table: lw.System | None = None
    pos: lw.apps.Tagger | None = None  # of parts of speech, which the parser reads

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """The tags of each sentence, and the probability of each tag."""
        tagger = _there(self.tagger, "tagger")
        places = {label: place for place, label in enumerate(tagger.labels_)}
        answers = []
        for tags, chances in zip(tagger.predict(sentences), tagger.predict_marginals(sentences), strict=True):
            sure = [float(row[places[tag]]) for tag, row in zip(tags, chances, strict=True)]
            answers.append({"tags": tags, "confidence": sure})
        return answers

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """The head of each word (0: the root) and the probability of each head."""
        pipeline = lw.apps.Pipeline(_there(self.pos, "pos"), _there(self.parser, "parser"))
        trees = self.parser.parse(pipeline.sentences([list(words) for words in sentences]))
        return [{"heads": list(tree.heads), "confidence": list(tree.confidence)} for tree in trees]

    def impute(self, rows: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
        """The most probable label of each cell that a row leaves out, and its probability."""
        system = _there(self.table, "table")
        names = system.vocabulary
        assert names is not None
        values = np.full((len(rows), len(names.names)), -1)
        for place, row in enumerate(rows):
            for name, label in row.items():
                variable = names.variable(name)
                values[place, variable] = names.value(variable, label)
        chances = system.predict_marginals(values).numpy()
        answers = []
        for place in range(len(rows)):
            best = chances[place].argmax(-1)
            asked = [v for v in range(len(names.names)) if values[place, v] < 0]
            cells = {names.names[v]: names.labels[v][int(best[v])] for v in asked}
            sure = {names.names[v]: float(chances[place, v, int(best[v])]) for v in asked}
            answers.append({"cells": cells, "confidence": sure})
        return answers


def _there(model: Any, name: str) -> Any:
    if model is None:
        raise ValueError(f"no {name} is served here; start the service with --{name} FILE")
    return model


def read_models(files: Mapping[str, Path | None]) -> Models:
    """Those of the files ``tagger``, ``parser``, ``table`` and ``pos``; a file of another kind is an error that says
    which kind."""
    kinds = {"tagger": lw.apps.Tagger, "parser": lw.apps.Parser, "table": lw.System, "pos": lw.apps.Tagger}
    found: dict[str, Any] = {}
    for name, path in files.items():
        if path is not None:
            try:
                found[name] = kinds[name].load(path)
            except (OSError, ValueError) as problem:
                raise ValueError(f"--{name}: {problem}") from problem
    if "table" in found and found["table"].vocabulary is None:
        raise ValueError(f"--table: {files['table']}: a system without names of its variables cannot read rows by name")
    return Models(**found)


def toy_models() -> Models:
    """Trained in a moment, on next to nothing."""
    words = [["Ann", "saw", "Bob"], ["the", "dog", "saw", "Ann"], ["Bob", "ran"], ["the", "dog", "ran"]]
    tags = [["B-PER", "O", "B-PER"], ["O", "O", "O", "B-PER"], ["B-PER", "O"], ["O", "O", "O"]]
    tagger = lw.apps.Tagger("w[0] is_title[0] bias", threads=1).fit(words, tags, progress=False)
    names = lw.formats.Vocabulary(("smoker", "cough", "fever"), (("no", "yes"),) * 3)
    graph = lw.FactorGraph([2, 2, 2], {"pair": [[0, 1], [1, 2]]}, vocabulary=names)
    rows = np.random.default_rng(0).integers(0, 2, (64, 1)).repeat(3, axis=1)
    examples = lw.Examples.of(graph, rows, [lw.Role.OUTPUT] * 3)
    system = lw.System(lw.TablePotentials(graph), lw.Exact())
    lw.fit(system, examples, lw.loss.SurrogateLikelihood(), epochs=5, progress=False)
    return Models(tagger, None, system)


# --- Requests that go together ---------------------------------------------------------------------------------------


@dataclass
class Together:
    """Gathers what comes while ``answer`` is busy, and has it answered in one call on a thread of its own.

    A batch that fails is answered request by request, so that one bad request spoils no other.
    """

    answer: Callable[[Sequence[Any]], list[Any]]
    pool: ThreadPoolExecutor
    waiting: list[tuple[list[Any], asyncio.Future[list[Any]]]] = field(default_factory=list)
    busy: bool = False

    async def __call__(self, items: list[Any]) -> list[Any]:
        mine: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.waiting.append((items, mine))
        if not self.busy:
            self.busy = True
            try:
                await self._work_off()
            finally:
                self.busy = False
        return await mine

    async def _work_off(self) -> None:
        while self.waiting:
            chosen, size = [], 0
            while self.waiting and (not chosen or size + len(self.waiting[0][0]) <= MOST_TOGETHER):
                chosen.append(self.waiting.pop(0))
                size += len(chosen[-1][0])
            try:
                await self._answer(chosen)
            except Exception as problem:
                if len(chosen) == 1:
                    _fail(chosen[0][1], problem)
                    continue
                for one in chosen:
                    try:
                        await self._answer([one])
                    except Exception as own:
                        _fail(one[1], own)

    async def _answer(self, chosen: Sequence[tuple[list[Any], asyncio.Future[list[Any]]]]) -> None:
        items = [item for mine, _ in chosen for item in mine]
        found = await asyncio.get_running_loop().run_in_executor(self.pool, self.answer, items)
        start = 0
        for mine, future in chosen:
            if not future.done():
                future.set_result(found[start : start + len(mine)])
            start += len(mine)


def _fail(future: asyncio.Future[list[Any]], problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)


# --- HTTP ------------------------------------------------------------------------------------------------------------


def make_app(models: Models, threads: int = 2) -> Any:
    """The application; ``threads``: batches that are answered at the same time."""
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

    pool = ThreadPoolExecutor(threads, thread_name_prefix="inference")
    answers = {name: Together(getattr(models, name), pool) for name in ("tag", "parse", "impute")}

    @asynccontextmanager
    async def life(_: Any) -> Any:
        yield
        pool.shutdown(cancel_futures=True)

    app = FastAPI(title="loopwise", lifespan=life)

    @app.exception_handler(ValueError)
    async def refused(_: Request, problem: ValueError) -> JSONResponse:
        return JSONResponse({"error": str(problem)}, 413 if isinstance(problem, TooLargeError) else 422)

    @app.post("/tag")
    async def tag(request: dict[str, Any]) -> dict[str, Any]:
        return {"answers": await answers["tag"](_sentences(request))}

    @app.post("/parse")
    async def parse(request: dict[str, Any]) -> dict[str, Any]:
        return {"answers": await answers["parse"](_sentences(request))}

    @app.post("/impute")
    async def impute(request: dict[str, Any]) -> dict[str, Any]:
        rows = request.get("rows")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError('give {"rows": [{"column": "label"}, ...]}; columns that are left out are predicted')
        _check_size(sum(map(len, rows)), "cells")
        return {"answers": await answers["impute"](rows)}

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"serves": [name for name in ("tagger", "parser", "table") if getattr(models, name) is not None]}

    return app


def _sentences(request: dict[str, Any]) -> list[list[str]]:
    sentences = request.get("sentences")
    if not isinstance(sentences, list) or not all(isinstance(words, list) and words for words in sentences):
        raise ValueError('give {"sentences": [["word", "word"], ...]}, at least one word each')
    _check_size(sum(map(len, sentences)), "words")
    if not all(isinstance(word, str) and word for words in sentences for word in words):
        raise ValueError("a word must be a text that is not empty")
    return sentences


def _check_size(count: int, what: str) -> None:
    if count > MOST_WORDS:
        raise TooLargeError(f"a request may have {MOST_WORDS:,} {what}, and this one has {count:,}; send several")


# --- A load of its own -----------------------------------------------------------------------------------------------


def memory() -> float:
    """What this process has resident, in megabytes; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    (line,) = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def ask(client: Any, path: str, body: object) -> tuple[int, Any]:
    """One request by a client of httpx: status and answer."""
    answer = client.post(f"/{path}", json=body)
    return answer.status_code, answer.json()


class Serving:
    """The service on a thread of this process, at a free port of the loopback: ``with Serving(models) as address``."""

    def __init__(self, models: Models) -> None:
        import uvicorn

        config = uvicorn.Config(make_app(models), host="127.0.0.1", port=0, log_level="warning")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        deadline = time.monotonic() + 60
        while not self.server.started:
            if time.monotonic() > deadline or not self.thread.is_alive():
                raise RuntimeError("the service did not start within a minute")
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)


REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tag", {"sentences": [["Zoe", "saw", "the", "dog"]]}),
    ("impute", {"rows": [{"smoker": "yes"}]}),
    ("tag", {"sentences": [["Ann", "ran"], ["the", "dog", "saw", "Bob"]]}),
)


def put_load_on(address: str, count: int, clients: int = 4) -> dict[str, float]:
    """``count`` requests by ``clients`` at a time: milliseconds at the median and at 99 of 100, megabytes in all (the
    clients are in the same process) and gained by the second half. An answer that differs from the first to the same
    request is an error."""
    import httpx

    times: list[float] = []

    def one(number: int) -> None:
        place = number % len(REQUESTS)
        began = time.perf_counter()
        found = ask(client, *REQUESTS[place])
        times.append(1000 * (time.perf_counter() - began))
        if not _alike(found, expected[place]):
            raise RuntimeError(f"request {number} was answered {found}, and the same one before {expected[place]}")

    with httpx.Client(base_url=address, timeout=60) as client, ThreadPoolExecutor(clients) as pool:
        expected = [ask(client, *request) for request in REQUESTS]
        list(pool.map(one, range(count // 2)))
        before = memory()
        list(pool.map(one, range(count // 2, count)))
    found = {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, 99))}
    return {"requests": count, **found, "megabytes": memory(), "gained": memory() - before}


def _alike(one: Any, other: Any) -> bool:
    """Equal up to rounding: a batch may add numbers in another order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return abs(one - other) < 1e-9 if isinstance(one, float) and isinstance(other, float) else bool(one == other)


def main() -> None:
    parser = argparse.ArgumentParser(description="Tags, trees and missing cells over HTTP, on the loopback.")
    for name in ("tagger", "parser", "table"):
        parser.add_argument(f"--{name}", type=Path, help=f"a saved {name}")
    parser.add_argument("--pos", type=Path, help="a saved tagger of parts of speech, for the parser")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--load", type=int, help="ask so many requests of itself, and end")
    options = parser.parse_args()
    began, empty = time.perf_counter(), memory()
    files = {name: getattr(options, name) for name in ("tagger", "parser", "table", "pos")}
    try:
        models = read_models(files) if any(files.values()) else toy_models()
    except ValueError as problem:
        parser.error(str(problem))
    print(f"models ready in {time.perf_counter() - began:.1f} s, {memory() - empty:.0f} MB", flush=True)
    if options.load:
        with Serving(models) as address:
            print(json.dumps({name: round(value, 2) for name, value in put_load_on(address, options.load).items()}))
        return
    import uvicorn

    uvicorn.run(make_app(models), host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()
