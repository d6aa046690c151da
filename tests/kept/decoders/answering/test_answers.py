"""Questions to a graph: values where it has the fact, a refusal where it has not."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import kept
from kept.apps.cli import app
from kept.decoders.answering.common import CommonRelations, phrases_of
from kept.decoders.answering.encoder import FastSentenceEncoder
from kept.decoders.answering.wanted import answer_type
from kept.errors import HostError

pytest.importorskip("ctranslate2", reason="the extra ask is not installed")

ROWS = [
    ("Brada Okoral", "role", "welder"), ("Brada Okoral", "lives in", "Orlbach"),
    ("Brada Okoral", "manager", "Kelsel Tessan"), ("Kelsel Tessan", "role", "auditor"),
    ("Kelsel Tessan", "lives in", "Tanwick"), ("Brada Okoral", "instance of", "person"),
    ("Kelsel Tessan", "instance of", "person"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers") / "kg"
    kept.KnowledgeGraph.from_triples(ROWS).save(folder)
    return folder


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("What is the role of Brada Okoral?", ("welder",)),
        ("Where does Brada Okoral live?", ("Orlbach",)),
        ("Who is the manager of Brada Okoral?", ("Kelsel Tessan",)),
    ],
)
def test_a_value_of_the_graph_is_chosen(folder: Path, question: str, values: tuple[str]) -> None:
    answer = kept.ask(question, kg=folder)
    assert answer.values == values
    assert answer.facts[0][0] == "Brada Okoral"
    assert answer.confidence > 0.6


def test_a_missing_fact_is_refused_with_what_is_missing(folder: Path) -> None:
    answer = kept.ask("Who is the manager of Kelsel Tessan?", kg=folder)
    assert answer.values == ()
    assert "it has no manager of Kelsel Tessan" in answer.refusal
    forced = kept.ask("Who is the manager of Kelsel Tessan?", kg=folder, least_confidence=0.0)
    assert forced.values


def test_a_question_without_an_entity_says_so(folder: Path) -> None:
    answer = kept.ask("What is the capital of Atlantis?", kg=folder)
    assert answer.refusal == "no entity of the graph is named in the question"


def test_the_command_prints_the_facts_and_json(folder: Path) -> None:
    line = ["ask", "Where does Brada Okoral live?", "--kg", str(folder)]
    output = CliRunner().invoke(app, line).stdout
    assert re.match(r"Orlbach    \(confidence [01]\.\d\d\)", output)
    assert "Brada Okoral — lives in → Orlbach" in output
    assert json.loads(CliRunner().invoke(app, [*line, "--json"]).stdout)["values"] == ["Orlbach"]


def test_answering_loads_no_torch(folder: Path) -> None:
    import subprocess
    import sys

    code = (
        f"import kept, sys; kept.ask('Where does Brada Okoral live?', kg={str(folder)!r}); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class _Server(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that repeats the facts that it was shown."""

    redirects = False

    def do_GET(self) -> None:
        self._send({"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.redirects:
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            return
        text = f"{body['model']}: {body['messages'][0]['content'].splitlines()[2]}"
        self._send({"choices": [{"message": {"content": text}}]})

    def _send(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def server() -> Iterator[str]:
    served = HTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}/v1"
    served.shutdown()
    served.server_close()
    thread.join()


def test_a_server_writes_from_the_facts_most_like_the_question(folder: Path, server: str) -> None:
    reply = kept.ask("Where does Brada Okoral live?", kg=folder, decoder=server, max_facts=1)
    assert reply["answer"] == "tiny: Brada Okoral, lives in: Orlbach."
    assert reply["chosen"].values == ("Orlbach",)


def test_a_server_that_is_gone_or_sends_elsewhere_is_named(
    folder: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HostError, match="cannot be reached"):
        kept.ask("Where does Brada Okoral live?", kg=folder, decoder="http://127.0.0.1:9/v1")
    monkeypatch.setattr(_Server, "redirects", True)
    with pytest.raises(HostError, match="answered 302"):
        kept.ask("Where does Brada Okoral live?", kg=folder, decoder=server)


@pytest.mark.parametrize(
    "question",
    [
        "How old is Brada Okoral?",
        "How tall is Brada Okoral?",
        "What is the phone number of Brada Okoral?",
        "What colour is the hair of Brada Okoral?",
        "Which languages does Brada Okoral speak?",
    ],
)
def test_what_no_relation_of_the_graph_is_about_is_refused(folder: Path, question: str) -> None:
    answer = kept.ask(question, kg=folder)
    assert answer.values == ()
    assert answer.refusal.startswith("not in the graph")


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("What is Brada Okoral's job?", ("welder",)),
        ("What is the profession of Kelsel Tessan?", ("auditor",)),
        ("Where is Kelsel Tessan's home?", ("Tanwick",)),
        ("Who is the boss of Brada Okoral?", ("Kelsel Tessan",)),
        ("What is the salary of Kelsel Tessan?", ()),
        ("Who is the boss of Kelsel Tessan?", ()),
    ],
)
def test_another_word_for_a_relation_of_the_graph_is_understood(
    question: str, values: tuple[str, ...]
) -> None:
    graph = kept.KnowledgeGraph.from_triples(
        [
            (head, {"role": "works as", "manager": "reports to"}.get(relation, relation), tail)
            for head, relation, tail in ROWS
        ]
    )
    assert kept.ask(question, kg=graph).values == values


def test_a_common_relation_that_the_graph_has_does_not_compete() -> None:
    known = CommonRelations(FastSentenceEncoder())
    question = known.encoder.encode(["What is the age?", "How old is the person?"])
    age = known.labels.index("age")
    names = known.encoder.encode(known.labels[: age + 1])
    without = known.compare(question, known.vectors[:age], names[:age])
    assert without.most_likely_missing()[0] == "age"
    assert without.lead(0, 0.1) < 0
    all_known = known.compare(question, known.vectors[: age + 1], names)
    assert all_known.known[age, age]
    assert all_known.most_likely_missing()[0] != "age"


@pytest.mark.parametrize(
    ("question", "is_ahead"),
    [("Who manages it?", True), ("Who is its boss?", True), ("Who owns it?", False)],
)
def test_a_near_synonym_of_a_relation_of_the_graph_does_not_compete(
    question: str, is_ahead: bool
) -> None:
    common = CommonRelations(FastSentenceEncoder())
    director = common.encoder.encode([*phrases_of("director", "thing"), "director"])
    vectors = common.encoder.encode([question, question.replace("it", "the thing")])
    match = common.compare(vectors, director[None, :4], director[4:])
    (score,) = match.through_questions(np.array([False]))
    assert (match.lead(0, score) > 0) == is_ahead


def test_a_common_relation_is_kin_to_those_with_like_questions() -> None:
    common = CommonRelations(FastSentenceEncoder())
    kin, number = common.kin, common.labels.index
    assert kin[number("boss"), number("director")] > 0.9
    assert kin[number("boss"), number("mother")] < 0.6
    assert kin == pytest.approx(kin.T, abs=1e-5)
    assert (np.diag(kin) == 1).all()


def test_other_names_of_common_relations_lead_to_the_graphs_own() -> None:
    known = CommonRelations(FastSentenceEncoder())
    question = known.encoder.encode(["What is the job?", "Which job is the job of the person?"])
    phrases = known.encoder.encode([p for name in ("works as", "lives in") for p in phrases_of(
        name, "thing")]).reshape(2, 4, -1)  # fmt: skip
    match = known.compare(question, phrases, known.encoder.encode(["works as", "lives in"]))
    works, lives = match.through_names()
    assert works > lives + 0.2
    assert works == pytest.approx(match.scores[known.labels.index("job")], abs=0.01)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Which shelf is it on?", "shelf"),
        ("In what year did it appear?", "year"),
        ("Whose property is it?", "person"),
        ("Since when has it been here?", "date"),
        ("Where is it?", "place"),
        ("What did it cost?", ""),
        ("Name its owner.", ""),
    ],
)
def test_the_type_of_an_answer_is_read_from_the_question(question: str, kind: str) -> None:
    assert answer_type(question) == kind


def test_the_quick_encoder_leaves_the_threads_of_torch_alone() -> None:
    """A model that is trained later in the same program trains with as many threads as before."""
    before = torch.get_num_threads()
    FastSentenceEncoder(before + 1).encode(["Where does Brada Okoral live?"])
    assert torch.get_num_threads() == before


def test_a_fact_that_an_entity_without_a_type_lacks_is_refused() -> None:
    """Entities with the same relations say which relations it could have."""
    ships = [
        (name, relation, value)
        for name, values in {
            "Solridge": ("Tess Quell", None, "1908"), "Calholm": ("Ivo Brann", "Wickmouth", "1907"),
            "Brightmoor": ("Una Feld", "Tarnhaven", "1911"),
            "Eastmere": ("Odo Lann", "Wickmouth", "1899"),
        }.items()
        for relation, value in zip(("captain", "home port", "built in"), values, strict=True)
        if value is not None
    ]  # fmt: skip
    graph = kept.KnowledgeGraph.from_triples(ships)
    for question in ("What is the home port of the Solridge?", "What is Solridge's home port?"):
        answer = kept.ask(question, kg=graph)
        assert answer.values == (), answer
        assert "it has no home port of Solridge" in answer.refusal
    assert kept.ask("What is the home port of the Calholm?", kg=graph).values == ("Wickmouth",)
    assert kept.ask("Who commands the Calholm?", kg=graph).values == ("Ivo Brann",)


def test_vectors_that_never_change_are_computed_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    encoder = FastSentenceEncoder()
    texts = ["What is the age?", "age: number"]
    expected = encoder.encode(texts)
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path))
    calls = []

    def encode(some: Sequence[str]) -> Any:
        calls.append(list(some))
        return expected[: len(some)]

    monkeypatch.setattr(encoder, "encode", encode)
    for _ in range(2):
        assert np.array_equal(encoder.encode_once("phrases", texts), expected)
    assert len(calls) == 1
    encoder.encode_once("phrases", texts[:1])
    assert calls[1:] == [texts[:1]], "other texts are not taken for these"
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    assert np.array_equal(encoder.encode_once("phrases", texts), expected)


def test_a_first_answer_encodes_no_common_relation_again() -> None:
    before = CommonRelations(FastSentenceEncoder()).vectors
    encoder = FastSentenceEncoder()
    encoded: list[str] = []
    encode = encoder.encode
    encoder.encode = lambda some: (encoded.extend(some), encode(some))[1]  # type: ignore[method-assign]
    vectors = CommonRelations(encoder).vectors
    assert not encoded
    assert np.array_equal(vectors, before)


def test_a_question_that_is_cut_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("ctranslate2")
    from kept.decoders.answering.encoder import MOST_PIECES, FastSentenceEncoder

    encoder = FastSentenceEncoder()
    encoder.encode(["where " * (MOST_PIECES - 2), "who"])
    assert not caplog.records
    encoder.encode(["where " * (MOST_PIECES - 1), "who", "why " * 900])
    assert f"2 of 3 texts cut at {MOST_PIECES} word pieces" in caplog.text
