"""The service of the examples under a real client on the loopback; and one model under many threads."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from oracles import few_kernels
from oracles.toy_language import small, toy_sentences

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
httpx: Any = pytest.importorskip("httpx", reason="httpx is not installed")

FILE = Path(__file__).resolve().parents[1] / "examples" / "service.py"


@pytest.fixture(scope="module")
def service() -> ModuleType:
    described = importlib.util.spec_from_file_location("service_example", FILE)
    assert described is not None and described.loader is not None
    module = importlib.util.module_from_spec(described)
    sys.modules["service_example"] = module
    described.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def models(service: ModuleType) -> Any:
    return service.toy_models()


@pytest.fixture(scope="module")
def client(service: ModuleType, models: Any) -> Iterator[Any]:
    with service.Serving(models) as address, httpx.Client(base_url=address, timeout=60) as made:
        yield made


def test_answers_with_confidences(client: Any, models: Any) -> None:
    assert client.get("/health").json() == {"serves": ["tagger", "table"]}
    sentences = [["Zoe", "saw", "the", "dog"], ["Bob"]]
    answers = client.post("/tag", json={"sentences": sentences}).json()["answers"]
    assert [answer["tags"] for answer in answers] == models.tagger.predict(sentences)
    for answer, marginals in zip(answers, models.tagger.predict_marginals(sentences), strict=True):
        assert all(0 < sure <= 1 for sure in answer["confidence"]) and len(answer["confidence"]) == len(marginals)
    (cells,) = client.post("/impute", json={"rows": [{"smoker": "yes"}]}).json()["answers"]
    exact = models.table.predict_marginals({"smoker": "yes"})
    assert cells["cells"] == {"cough": "yes", "fever": "yes"}
    assert cells["confidence"]["fever"] == pytest.approx(float(exact[2, 1]))


@pytest.mark.filterwarnings("ignore:100% of the fine tags")  # there is a tagger of coarse ones only
def test_trees_of_plain_words(service: ModuleType) -> None:
    """Parts of speech come from one tagger, trees from the parser."""
    sentences = toy_sentences(40, seed=1)
    words = [list(sentence.forms) for sentence in sentences]
    pos = lw.apps.Tagger("w[0] bias", threads=1).fit(
        words, [list(sentence.coarse_tags) for sentence in sentences], progress=False
    )
    parser = small()
    parser.fit(sentences, epochs=2, progress=False, threads=1)
    models = service.Models(parser=parser, pos=pos)
    with service.Serving(models) as address, httpx.Client(base_url=address, timeout=120) as made:
        answers = made.post("/parse", json={"sentences": words[:3]}).json()["answers"]
    expected = parser.parse(lw.apps.Pipeline(pos, parser).sentences(words[:3]))
    assert [answer["heads"] for answer in answers] == [list(tree.heads) for tree in expected]
    assert all(0 < sure <= 1 for answer in answers for sure in answer["confidence"])


def test_what_is_refused(client: Any) -> None:
    """One clear sentence each, and the next request is answered."""
    for path, body, code, words in (
        ("/tag", {"sentences": [["word"] * 1_000_000]}, 413, "20,000 words, and this one has 1,000,000; send several"),
        ("/tag", {"sentences": [[]]}, 422, "at least one word each"),
        ("/tag", {"words": 3}, 422, 'give {"sentences"'),
        ("/tag", {"sentences": [["a", 3]]}, 422, "a word must be a text"),
        ("/parse", {"sentences": [["a"]]}, 422, "no pos is served here; start the service with --pos FILE"),
        ("/impute", {"rows": [{"wealth": "yes"}]}, 422, "wealth"),
        ("/impute", {"rows": [{"smoker": "perhaps"}]}, 422, "perhaps"),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == code and words in answer.json()["error"], answer.text
        assert "\n" not in answer.json()["error"]
    assert client.post("/tag", json={"sentences": [["Ann"]]}).status_code == 200


def test_a_model_of_another_app(
    service: ModuleType,
    models: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One sentence that names the option, the file and what it holds, before anything is served."""
    tags, table, nameless = (tmp_path / name for name in ("tags.loopwise", "table.loopwise", "nameless.loopwise"))
    models.tagger.save(tags)
    models.table.save(table)
    lw.System(lw.TablePotentials(lw.chain(3)), lw.Exact()).save(nameless)
    for name, path, words in (
        ("tagger", table, "holds a System, not a Tagger"),
        ("parser", tags, "holds a Tagger, not a Parser"),
        ("table", tags, "holds a Tagger, not a System"),
        ("table", nameless, "a system without names of its variables"),
        ("pos", FILE, "this is no file that loopwise saved"),
        ("tagger", tmp_path / "gone.loopwise", "No such file"),
    ):
        monkeypatch.setattr("sys.argv", ["service.py", f"--{name}", str(path)])
        with pytest.raises(SystemExit) as ended:
            service.main()
        said = capsys.readouterr().err.splitlines()[-1]
        assert ended.value.code == 2 and f"error: --{name}: " in said and words in said and path.name in said
    read = service.read_models({"tagger": tags, "table": table, "parser": None})
    assert read.parser is None and read.tag([["Ann", "ran"]]) == models.tag([["Ann", "ran"]])
    assert read.impute([{"smoker": "yes"}]) == models.impute([{"smoker": "yes"}])


def test_a_bad_request_spoils_no_other(client: Any) -> None:
    def one(number: int) -> int:
        label = "perhaps" if number % 5 == 0 else "yes"
        return client.post("/impute", json={"rows": [{"smoker": label}]}).status_code

    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(one, range(40)))
    assert codes == [422 if number % 5 == 0 else 200 for number in range(40)]


def test_a_load(service: ModuleType, client: Any) -> None:
    """Answers stay the same, and memory does not grow: 200 requests here, as many as one likes by --load."""
    found = service.put_load_on(str(client.base_url), 200)
    assert found["requests"] == 200 and 0 < found["p50"] <= found["p99"]
    assert found["gained"] < 30


def predictions(number: int) -> tuple[int, torch.Tensor]:
    """Of one of several methods on one graph, each with evidence of its own."""
    method = METHODS[number % len(METHODS)]
    observed = np.full(GRAPH.variables, -1)
    observed[number % GRAPH.variables] = number % 2
    return number, method(GRAPH, TABLES, None if number % 3 == 0 else observed).states


GRAPH = lw.grid(4, 4)
TABLES = {name: table.detach() for name, table in lw.TablePotentials.random(GRAPH, seed=0)().items()}
METHODS = (lw.BP(iterations=5, tolerance=0), lw.BP(iterations=9, tolerance=0), lw.MeanField(iterations=4), lw.Exact())


@pytest.mark.filterwarnings("ignore")
def test_one_model_under_many_threads(models: Any) -> None:
    alone = [predictions(number)[1] for number in range(24)]
    sentences = [["Zoe", "saw", "the", "dog"], ["Ann", "ran"]]
    tags, system = models.tagger.predict(sentences), models.table.predict({"smoker": "yes"})
    with ThreadPoolExecutor(8) as pool:
        for number, states in pool.map(predictions, [*range(24)] * 4):
            assert torch.equal(states, alone[number])
        for found in pool.map(lambda _: models.tagger.predict(sentences), range(40)):
            assert found == tags
        for decided in pool.map(lambda _: models.table.predict({"smoker": "yes"}), range(40)):
            assert torch.equal(decided, system)


class Watched(lw.TablePotentials):
    """Says so if it is ever asked in training mode."""

    def forward(self) -> dict[str, torch.Tensor]:
        assert not self.training
        time.sleep(0.002)
        assert not self.training
        return super().forward()


def test_no_thread_takes_evaluation_mode_from_another() -> None:
    system = lw.System(Watched(lw.chain(3)), lw.BP(), lw.decode.Max()).train()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: system.predict({0: number % 2}), range(60)))
    assert system.training and system.potentials.training


def answer(path: str) -> list[list[int]]:
    few_kernels.in_this_process()  # the same ones in all of them
    found: list[list[int]] = lw.System.load(path).predict(np.array([[1, -1, -1], [0, -1, -1]])).tolist()
    return found


def test_one_model_in_many_processes(models: Any, tmp_path: Path) -> None:
    models.table.save(tmp_path / "m.loopwise")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        first = pool.submit(answer, str(tmp_path / "m.loopwise")).result()  # kernels are compiled once
        found = list(pool.map(answer, [str(tmp_path / "m.loopwise")] * 2))
    assert [first, *found] == [answer(str(tmp_path / "m.loopwise"))] * 3
