"""`kept serve --mcp` asked by the protocol's own client, over a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from kept.apps.serve.completing import Completion
from kept.apps.serve.mcp_server import GraphTools, make_mcp_server
from kept.kge.scorers import make_scorer
from kept.kge.splits import Splits
from kept.linking.linkers import LinkerSettings, open_pipeline
from kg_loaders import KnowledgeGraph

_Result = TypeVar("_Result")


@pytest.fixture(scope="module")
def kg(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp") / "kg"
    small_graph.save(folder)
    return folder


def command(kg: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "kept", "serve", "--mcp", "--kg", str(kg), *options]


def with_client(
    kg: Path, session: Callable[[Client], Awaitable[_Result]], *options: str
) -> _Result:
    async def run() -> _Result:
        program, *arguments = command(kg, *options)
        # the caches of the tests, which the client's own environment leaves out
        env = dict(os.environ)
        parameters = StdioServerParameters(command=program, args=arguments, env=env)
        async with Client(stdio_client(parameters)) as client:
            return await session(client)

    return asyncio.run(run())


Call = tuple[str, dict[str, Any]]


def results_of(kg: Path, *calls: Call) -> list[tuple[bool, Any]]:
    """Of each call, whether it is an error, and its structure or the text of the error."""

    async def requests(client: Client) -> list[tuple[bool, Any]]:
        results = [await client.call_tool(name, arguments) for name, arguments in calls]
        return [_outcome(result) for result in results]

    return with_client(kg, requests)


def _outcome(result: Any) -> tuple[bool, Any]:
    if result.is_error:
        return True, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return False, result.structured_content


# ---- answers -------------------------------------------------------------------------------------
def test_tools_are_described_in_words(kg: Path) -> None:
    async def requests(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in with_client(kg, requests)}
    assert set(tools) == {"link", "facts", "query", "ask"}  # no scorer is given
    for tool in tools.values():
        assert len(tool.description or "") > 100
        assert "\n    " not in (tool.description or "")
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.output_schema is not None
    assert tools["facts"].input_schema["required"] == ["name"]


def test_what_a_graph_knows_is_answered(kg: Path) -> None:
    select = "SELECT ?x { ?x kg:P17 kg:Q183 } ORDER BY ?x"
    count = "SELECT (COUNT(?x) AS ?n) { ?x kg:P17 kg:Q183 }"
    linked, facts, by_id, few, rows, counted, truth, construct = results_of(
        kg,
        ("link", {"text": "the old city of Berlin"}),
        ("facts", {"name": "Berlin"}),
        ("facts", {"name": "Q64"}),
        ("facts", {"name": "Berlin", "most": 1}),
        ("query", {"sparql": select}),
        ("query", {"sparql": count}),
        ("query", {"sparql": "ASK { kg:Q64 kg:P17 kg:Q183 }"}),
        ("query", {"sparql": "CONSTRUCT { ?x kg:P17 kg:Q183 } WHERE { ?x kg:P17 kg:Q183 }"}),
    )
    assert [(k["words"], k["id"], k["label"]) for k in linked[1]["links"]] == [
        ("Berlin", "Q64", "Berlin")
    ]
    assert facts == by_id
    assert {"head": "Berlin", "relation": "country", "tail": "Germany"} in facts[1]["facts"]
    assert few[1]["facts"] == facts[1]["facts"][:1]
    assert few[1]["n_facts"] == facts[1]["n_facts"] > 1
    assert ["Q64 (Berlin)"] in rows[1]["rows"]
    assert counted[1]["rows"] == [[str(len(rows[1]["rows"]))]]
    assert truth[1]["rows"] == [["true"]]
    assert ["Q64 (Berlin)", "P17 (country)", "Q183 (Germany)"] in construct[1]["rows"]


def test_questions_are_answered_or_refused(kg: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    answer, refusal = results_of(
        kg,
        ("ask", {"question": "What is the country of Berlin?"}),
        ("ask", {"question": "What is the capital of Atlantis?"}),
    )
    assert answer[1]["values"] == ["Germany"]
    assert answer[1]["facts"] == [{"head": "Berlin", "relation": "country", "tail": "Germany"}]
    assert (refusal[0], refusal[1]["values"]) == (False, [])
    assert "no entity of the graph" in refusal[1]["refusal"]


def test_triples_are_completed_where_there_is_a_scorer(small_graph: KnowledgeGraph) -> None:
    """In this process: what a scorer is made of is tested with the HTTP service."""
    scorer = make_scorer(
        "distmult", n_entities=small_graph.n_entities, n_relations=small_graph.n_relations,
        width=4, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    splits = Splits(small_graph, small_graph.triples[2:], small_graph.triples[:1],
                    small_graph.triples[1:2])  # fmt: skip
    linker = open_pipeline(LinkerSettings(kg="small"), small_graph)
    tools = GraphTools(small_graph, linker, Completion(splits, scorer, splits.seen))

    async def run() -> list[tuple[bool, Any]]:
        async with Client(make_mcp_server(tools)) as client:
            triples = [("Berlin", "country", "?"), ("Q64", "P17", "?"), ("Berlim", "country", "?"),
                       ("Berlin", "country", "Germany")]  # fmt: skip
            calls = [dict(zip(("head", "relation", "tail"), each, strict=True)) for each in triples]
            results = [await client.call_tool("complete", call | {"most": 3}) for call in calls]
            return [_outcome(result) for result in results]

    by_label, by_id, misspelt, whole = asyncio.run(run())
    assert by_label == by_id
    assert len(by_label[1]["answers"]) == 3
    assert (misspelt[0], "did you mean Berlin" in misspelt[1]) == (True, True)
    assert (whole[0], "exactly one of head" in whole[1]) == (True, True)


# ---- hostile calls -------------------------------------------------------------------------------
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("facts", {"name": "Berlim"}, "did you mean Berlin"),
    ("facts", {"name": "Paris"}, "Q90"),
    ("facts", {"name": "../../etc/passwd"}, "no entity"),
    ("facts", {"name": ""}, "name is empty; give a text"),
    ("facts", {"name": "x" * 501}, "longer than 500 characters"),
    ("facts", {"name": "Berlin", "most": 10**9}, "most is more than 200; give 200 or less"),
    ("facts", {"name": "Berlin", "most": 0}, "most is less than 1; give 1 or more"),
    ("facts", {"name": ["Berlin"]}, "give a text"),
    ("facts", {}, "facts needs the argument 'name'"),
    ("facts", {"name": "Berlin", "most": "ten"}, "most is 'ten'; give a whole number"),
    ("facts", {"entity": "Berlin"}, "facts has no argument 'entity'; facts takes name, most"),
    ("fact", {"name": "Berlin"}, "there is no tool 'fact'; did you mean facts?"),
    ("link", {"text": "x" * 2001}, "longer than 2000 characters"),
    ("link", {"text": None}, "text is None; give a text"),
    ("query", {"sparql": "SELECT"}, "not a SPARQL query"),
    ("query", {"sparql": "DELETE WHERE { ?a ?b ?c }"}, "update"),
    ("query", {"sparql": "SELECT ?a { SERVICE <http://x/> { ?a ?b ?c } }"}, "another endpoint"),
    ("query", {"sparql": "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"}, "more than"),
    ("query", {"sparql": "x" * 10_001}, "longer than 10000 characters"),
    ("complete", {"head": "Q64", "relation": "P17", "tail": "?"}, "there is no tool 'complete'"),
    ("__class__", {}, "the tools are link, facts, query, ask"),
    ("ask", {"question": "x" * 2001}, "longer than 2000 characters"),
]


def test_hostile_calls_are_errors_with_a_remedy_and_harm_no_other(kg: Path) -> None:
    calls: list[Call] = []
    for name, arguments, _ in HOSTILE:
        calls += [(name, arguments), ("facts", {"name": "Berlin"})]
    outcomes = results_of(kg, *calls)
    good = outcomes[1]
    assert not good[0]
    for (name, _, word), (is_error, text) in zip(HOSTILE, outcomes[::2], strict=True):
        assert (name, is_error, word in text) == (name, True, True), text
        assert len(text) < 1000
        assert "(--" not in text  # a remedy of the command line is none here
    assert all(each == good for each in outcomes[1::2])


def test_texts_that_are_hostile_are_texts(kg: Path) -> None:
    texts = ["\x00\x1b[2J Berlin", "\u202eBerlin", "<script>Berlin</script>", "😀" * 500, " "]
    outcomes = results_of(kg, *(("link", {"text": text}) for text in texts))
    assert not any(is_error for is_error, _ in outcomes)


def test_concurrent_calls_get_their_own_answers(kg: Path) -> None:
    names = ["Berlin", "Q64", "Seine", "Germany", "France"] * 8

    async def requests(client: Client) -> list[str]:
        calls = [client.call_tool("facts", {"name": name}) for name in names]
        queries = [client.call_tool("query", {"sparql": "ASK { ?a kg:P17 ?b }"}) for _ in range(4)]
        results = await asyncio.gather(*calls, *queries)
        assert not any(result.is_error for result in results)
        return [result.structured_content["label"] for result in results[: len(names)]]

    labels = with_client(kg, requests)
    assert labels == ["Berlin" if name == "Q64" else name for name in names]


def test_too_many_calls_are_told_to_come_again(kg: Path) -> None:
    async def requests(client: Client) -> list[bool]:
        slow = [client.call_tool("query", {"sparql": "ASK { ?a ?b ?c }"}) for _ in range(12)]
        results = await asyncio.gather(*slow)
        refusals = [r for r in results if r.is_error]
        assert all("call again" in r.content[0].text for r in refusals)
        assert not (await client.call_tool("facts", {"name": "Berlin"})).is_error
        return [r.is_error for r in results]

    outcomes = with_client(kg, requests, "--max-requests", "3")
    assert 0 < sum(outcomes) < 12


# ---- the process ---------------------------------------------------------------------------------
class RawClient:
    """JSON-RPC by hand: what the server writes is seen as it is."""

    def __init__(self, arguments: list[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def send(self, message: dict[str, Any] | str) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0"} | message)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def begin(self) -> None:
        self.send({"id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "raw", "version": "0"},
        }})  # fmt: skip
        assert self.receive()["result"]["serverInfo"]["name"] == "kept"
        self.send({"method": "notifications/initialized"})

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        self.send({"id": number, "method": "tools/call", "params": params})

    def end(self) -> tuple[str, str]:
        """Close its input; return what it still writes, and its error output."""
        with contextlib.suppress(BrokenPipeError):
            out, errors = self.process.communicate(timeout=30)
        return out, errors


@pytest.fixture
def raw_client() -> Iterator[Callable[[list[str]], RawClient]]:
    """Starts servers, none of which outlives the test."""
    clients: list[RawClient] = []

    def start(arguments: list[str]) -> RawClient:
        clients.append(RawClient(arguments))
        return clients[-1]

    yield start
    for client in clients:
        client.process.kill()
        client.process.wait()
        for stream in (client.process.stdin, client.process.stdout, client.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_once_calls_are_answered(
    kg: Path, number: int, code: int, raw_client: Any
) -> None:
    client = raw_client(command(kg))
    client.begin()
    client.call(1, "facts", name="Berlin")
    assert client.receive()["id"] == 1
    client.call(2, "query", sparql="ASK { ?a kg:P17 ?b }")
    time.sleep(0.1)
    client.process.send_signal(number)
    answer = client.receive()
    assert (answer["id"], answer["result"]["structuredContent"]["rows"]) == (2, [["true"]])
    out, errors = client.end()
    assert (client.process.returncode, out, "Traceback" in errors) == (code, "", False), errors


def test_a_closed_input_ends_it(kg: Path, raw_client: Any) -> None:
    client = raw_client(command(kg))
    client.begin()
    out, errors = client.end()
    assert (client.process.returncode, out, errors) == (0, "", "")


def test_output_carries_the_protocol_alone(kg: Path, raw_client: Any) -> None:
    client = raw_client(command(kg))
    client.begin()
    for line in ("{", "[]", '"x"', '{"jsonrpc": "2.0"}', "\x00", ""):
        client.send(line)
    client.call(7, "link", text="Berlin")
    answers = []
    while not answers or answers[-1].get("id") != 7:
        answers.append(client.receive())  # JSON all of it
    assert answers[-1]["result"]["structuredContent"]["links"][0]["id"] == "Q64"
    assert client.end()[0] == ""


def test_a_message_without_end_ends_it(kg: Path, raw_client: Any) -> None:
    client = raw_client(command(kg))
    client.begin()
    with contextlib.suppress(BrokenPipeError):  # it has ended already
        client.send("x" * (5 << 20))
    out, errors = client.end()
    assert (client.process.returncode, out) == (1, "")
    assert "a message has more than" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kg", "gone"), "gone does not exist"),
        (("--kg", "{kg}", "--kgc", "gone"), "gone does not exist"),
        (("--kg", "{kg}", "--probe", "tiny"), "--probe is for HTTP"),
        (("--kg", "{kg}", "--fd", "5", "--max-seconds", "-1"), "--max-seconds"),
        (("--kg", "{kg}", "--fd", "5"), "--fd is for HTTP"),
        (("--kg", "{empty}"), "empty"),
    ],
)
def test_what_cannot_be_served_is_said_on_the_error_output(
    kg: Path, options: tuple[str, ...], message: str, tmp_path: Path, raw_client: Any
) -> None:
    (tmp_path / "empty").mkdir()
    arguments = [each.format(kg=kg, empty=tmp_path / "empty") for each in options]
    client = raw_client([sys.executable, "-m", "kept", "serve", "--mcp", *arguments])
    out, errors = client.end()
    assert (client.process.returncode in (1, 2), out) == (True, "")
    assert message in errors.replace("\n", " ")
