"""SPARQL 1.1 over a stored graph: pyoxigraph answers, in a process with limits.

The statements that the query can read go to the process as N-Triples (`query_patterns`,
`statement_lines`): triples, and texts as rdfs:label, skos:altLabel, rdfs:comment and rdf:type. A
name that is not an IRI stands behind `urn:kept:`, in queries `kg:Q90`. Time, memory and rows are
limited, and nothing is asked of another machine (SERVICE, FROM).

A path of length zero joins a name of the query to itself, in the graph or not (SPARQL 1.1, 18.4).
The store knows only terms of its graph; so such names are added as objects of a statement that no
pattern of the query fits, and a query with a pattern that fits any statement is refused for a name
that the graph does not hold.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING, Literal

import pyoxigraph as ox

from kg_loaders.errors import QueryError
from kg_loaders.rdf import query_process
from kg_loaders.rdf.query_patterns import WHOLE, may_have_empty_path, reading_of
from kg_loaders.rdf.query_words import UPDATES, words_of
from kg_loaders.rdf.records import RDF_TYPE, RDFS, SKOS
from kg_loaders.rdf.statement_lines import ANYTHING, BASE, n_statements, statement_lines
from kg_loaders.store import KnowledgeGraph

if TYPE_CHECKING:
    from rdflib.query import Result

PREFIXES = {"kg": BASE, "rdf": RDF_TYPE.removesuffix("type"), "rdfs": RDFS, "skos": SKOS}
WHOLE_BELOW = 50_000
"""Statements; of a smaller graph all are loaded: that is faster than to look into the query."""
UNSEEN = "urn:kept-internal:unseen"
"""Subject and predicate of statements that are not part of the graph and that no pattern fits."""
_OTHER_PLACES = ("SERVICE", "FROM")
MOST_EXPECTED = 100
"""Characters of what a parser says that somebody reads."""
_POSITION = re.compile(r"error at (\d+):(\d+): ")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may cost.

    Args:
        seconds: processor time of the query itself.
        rows: of the answer: solutions of a SELECT, triples of a CONSTRUCT.
        memory_bytes: address space of the process, which holds about 300 bytes for each statement.
        answer_bytes: size of the answer.
        load_seconds: processor time of loading the statements.
    """

    seconds: int = 60
    rows: int = 1_000_000
    memory_bytes: int = 4 << 30
    answer_bytes: int = 1 << 30
    load_seconds: int = 600

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise QueryError(f"{name} is {value}; give a number above 0")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as text: TSV (SPARQL 1.1) of a SELECT, N-Triples of a graph, true or false."""

    kind: Literal["SELECT", "ASK", "GRAPH"]
    data: bytes

    @property
    def is_true(self) -> bool:
        """The answer of an ASK."""
        return self.data == b"true"

    def json(self) -> bytes:
        """Return a SELECT or ASK in SPARQL's JSON; raises `QueryError` for a graph."""
        if self.kind == "GRAPH":
            raise QueryError("the answer is a graph; only SELECT and ASK have a form in JSON")
        if self.kind == "ASK":
            return b'{"head":{},"boolean":%s}' % self.data
        rows = ox.parse_query_results(self.data, ox.QueryResultsFormat.TSV)
        assert isinstance(rows, ox.QuerySolutions)
        return rows.serialize(format=ox.QueryResultsFormat.JSON) or b""


def query(graph: KnowledgeGraph, text: str, *, limits: QueryLimits | None = None) -> Result:
    """Return the answer of `graph` to a SPARQL query as rdflib's Result: rows, a truth or a graph.

    `PREFIXES` need not be declared. Raises `QueryError` for what is not a query, for one that asks
    another place (SERVICE, FROM), and for one that costs more than `limits`.

    >>> graph = KnowledgeGraph.from_triples([("Q90", "P17", "Q142")])
    >>> [str(row[0]) for row in query(graph, "SELECT ?o { kg:Q90 kg:P17 ?o }")]
    ['urn:kept:Q142']
    """
    from rdflib import Graph
    from rdflib.query import Result

    answers = answer(graph, text, limits=limits)
    if answers.kind == "GRAPH":
        result = Result("CONSTRUCT")
        result.graph = Graph().parse(data=answers.data, format="nt")
        return result
    return Result.parse(io.BytesIO(answers.json()), format="json")


def answer(graph: KnowledgeGraph, text: str, *, limits: QueryLimits | None = None) -> Answer:
    """Return the answer of `graph` to a SPARQL query as text; raises what `query` does."""
    limits = limits or QueryLimits()
    _refuse_other_places(text)
    reading, is_small = WHOLE, n_statements(graph) <= WHOLE_BELOW
    if not is_small or may_have_empty_path(text):
        reading = reading_of(text, PREFIXES)
    nodes = reading.path_ends if reading.any_predicate else ()
    task = {"query": text, "prefixes": PREFIXES, "nodes": nodes, **asdict(limits)}
    lines = statement_lines(graph, [ANYTHING] if is_small else reading.patterns)
    if not reading.any_predicate:
        lines = chain(lines, [f"<{UNSEEN}> <{UNSEEN}> <{end}> .\n".encode()
                              for end in reading.path_ends])  # fmt: skip
    with tempfile.TemporaryFile() as sink, tempfile.TemporaryFile() as errors:
        code = _run(task, lines, sink, errors)
        sink.seek(0)
        errors.seek(0)
        outcome = _outcome(code, errors.read().decode(errors="replace"))
        if "fault" in outcome:
            raise _error(outcome, text, limits, n_statements(graph))
        return Answer(outcome["kind"], sink.read())  # type: ignore[arg-type]


def _refuse_other_places(text: str) -> None:
    words = list(words_of(text))
    for word in _OTHER_PLACES:
        if word in words:
            raise QueryError(
                f"{word} queries another endpoint, but only the graph can be queried; leave it out"
            )
    first = next((word for word in words if word not in ("PREFIX", "BASE")), "")
    if first in UPDATES:
        raise QueryError(
            f"this is not a SPARQL query but an update ({first}); a graph that is stored does not "
            "change: kept kg add makes a new one"
        )


# ---- the process ---------------------------------------------------------------------------------
def _run(
    task: dict[str, object], lines: Iterable[bytes], sink: IO[bytes], errors: IO[bytes]
) -> int:
    """Feed a process of its own with the task and the statements; its exit code."""
    # -I and -S with our own path: what is set up for this process holds, and it starts at once
    program = f"import sys, runpy; sys.path[:] = {sys.path!r}; "
    program += f"runpy.run_path({query_process.__file__!r}, run_name='__main__')"
    command = [sys.executable, "-I", "-S", "-c", program]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=errors)
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:  # it ended early
            pipe.write(json.dumps(task).encode() + b"\n")
            for block in lines:
                pipe.write(block)
        return process.wait()
    finally:
        process.kill()
        process.wait()


def _outcome(code: int, errors: str) -> dict[str, str]:
    """What the process has to say at its end, or why it ended without."""
    last = errors.rstrip().rpartition("\n")[2]
    if code == 0 and last.startswith("{"):
        outcome: dict[str, str] = json.loads(last)
        return outcome
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if name == "SIGXCPU":
        return {"fault": "seconds", "message": ""}
    if name == "SIGKILL" or any(words in errors for words in ("allocat", "MemoryError")):
        return {"fault": "memory_bytes", "message": ""}
    words = " ".join(errors.split())[-200:]
    return {"fault": "crash", "message": f"{name}{': ' if words else ''}{words}"}


_COSTS = {
    "seconds": "takes more than {seconds} seconds of processor time; join its patterns by "
    "variables, or allow more (--seconds)",
    "rows": "has more than {rows} rows; add LIMIT, or allow more (--rows)",
    "memory_bytes": "needs more than {memory_bytes} bytes of memory; name a predicate in each "
    "pattern, of the graph's {n} statements only those are loaded, or allow more (--memory)",
    "bytes": "has an answer of more than {answer_bytes} bytes; add LIMIT",
}


def _error(
    outcome: dict[str, str], text: str, limits: QueryLimits, n_statements: int
) -> QueryError:
    fault, message = outcome["fault"], outcome["message"]
    if fault in _COSTS:
        return QueryError("the query " + _COSTS[fault].format(n=n_statements, **asdict(limits)))
    if fault == "syntax":
        return QueryError(_syntax_error(message, text))
    if fault == "absent":
        return QueryError(
            f"<{message}> is at an end of a path that may have length zero, and is not in the "
            "graph; together with a pattern of any predicate this is not supported; leave it "
            "out, or name the predicates"
        )
    if fault == "evaluation":
        return QueryError(f"the query cannot be answered: {message}")
    return QueryError(
        f"the query made its process end ({message}); it may nest too deeply: make it shorter"
    )


def _syntax_error(message: str, text: str) -> str:
    position = _POSITION.match(message)
    if position is None:
        return f"this is not a SPARQL query: {message}"
    number, column = int(position[1]), int(position[2])
    lines = text.splitlines() or [""]
    line = lines[min(number, len(lines)) - 1]
    near = line[max(column - 20, 0) : column + 20].strip()
    reason = message[position.end() :]
    if "Prefix not found" in reason:
        known = ", ".join(f"{name}:" for name in PREFIXES)
        reason = f"a prefix is not declared; known are {known}, declare others with PREFIX"
    elif len(reason) > MOST_EXPECTED:  # a list of all tokens of the grammar
        reason = "something else is expected here; an example: SELECT ?x WHERE { ?x ?p ?y }"
    return f"this is not a SPARQL query: line {number}, column {column}, near {near!r}: {reason}"
