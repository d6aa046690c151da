"""A graph as tools of the Model Context Protocol: link, facts, query, complete, ask.

The tools are functions of `GraphTools`; their docstrings are what a language model reads. Each
fault of a call is an error of that call, with its remedy. `run_stdio` serves them over standard
input and output.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, ValidationError

from entity_linking.errors import LinkingError
from entity_linking.mentions import Linker
from kept.apps.serve.batching import Batcher, Work
from kept.apps.serve.knowledge import Asking, facts_of_name, links_of
from kept.apps.serve.limits import LATE, MAX_NAME, MAX_TEXT, Limits
from kept.apps.serve.querying import MOST_CHARACTERS, query_rows
from kept.apps.serve.tool_results import (
    AnswerResult,
    CompletionsResult,
    FactsResult,
    LinksResult,
    QueryResult,
)
from kept.errors import KeptError
from kept.linking.linkers import LinkerSettings, open_graph, open_pipeline
from kept.values import shown_value
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.errors import KgError
from kg_loaders.spelling import did_you_mean

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context
    from pydantic_core import ErrorDetails

    from kept.apps.serve.completing import Completion

MOST_LISTED, N_CANDIDATES, MOST_RELATIONS, N_QUERIES = 200, 3, 40, 2
MAX_QUERY = 10_000
"""Characters of a query."""
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
FAULTS = (KeptError, LinkingError, KgError)

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Most = Annotated[int, Field(ge=1, le=MOST_LISTED, description="List at most so many.")]


@dataclass(eq=False)
class GraphTools:
    """The tools of one graph; calls wait in turn, and those of one tool are answered together."""

    graph: KnowledgeGraph
    linker: Linker
    completion: Completion | None = None
    limits: Limits = field(default_factory=Limits)
    n_calls: int = 0
    batcher: Batcher = field(init=False)

    def __post_init__(self) -> None:
        self.asking = Asking(self.graph, self.linker)
        work: dict[str, Work] = {
            "link": self._link,
            "facts": self._facts,
            "ask": self._answer_questions,
            "complete": self._complete,
        }
        self.batcher = Batcher(work, self.limits)
        self._queries = asyncio.Semaphore(N_QUERIES)

    # ---- tools -------------------------------------------------------------
    async def link(self, text: Text) -> LinksResult:
        """Find the entities of the knowledge graph that a text names.

        Give the text as it is. Each mention comes with the identifier of its entity, which the
        other tools take, a confidence from 0 to 1, and the next likeliest entities. A mention that
        is `ambiguous` has several entities with the same score: look at `candidates`.
        """
        links = await self._answered("link", text)
        return LinksResult.model_validate({"links": links})

    async def facts(self, name: Name, most: Most = 50) -> FactsResult:
        """List the facts that the knowledge graph has about one entity.

        `name` is a label, an alias or an identifier, such as "Paris" or "Q90"; upper and lower case
        count. Where several entities have the name, the error lists their identifiers: call again
        with one of them.
        """
        return FactsResult.model_validate(await self._answered("facts", (name, most)))

    async def query(
        self, sparql: Annotated[str, Field(min_length=1, max_length=MAX_QUERY)], most: Most = 50
    ) -> QueryResult:
        """Query the knowledge graph in SPARQL 1.1 (SELECT, ASK or CONSTRUCT; it cannot change).

        The entity or relation with the identifier X is kg:X; write <urn:kept:X> where X has other
        characters than letters, digits and _, a blank being %20. Labels are rdfs:label, aliases
        skos:altLabel, descriptions rdfs:comment, types rdf:type; all four prefixes are known.
        Use it for questions that need several steps, counts or comparisons. An example:
        SELECT ?label (COUNT(?x) AS ?n) { ?x kg:P17 ?c . ?c rdfs:label ?label } GROUP BY ?label
        """
        with self._call():
            async with self._queries:
                work = asyncio.to_thread(query_rows, self.graph, sparql, most)
                rows = await _within(work, self.limits.answer_seconds)
        return QueryResult.model_validate(rows)

    async def complete(
        self, head: Name, relation: Name, tail: Name, most: Most = 10
    ) -> CompletionsResult:
        """Guess what is missing in a triple of the knowledge graph, the best guess first.

        Give two of head, relation and tail by label or identifier, and "?" for the third. Guesses
        are made by a trained model and may be wrong; those with `known` true are in the graph.
        """
        best = await self._answered("complete", (head, relation, tail, most))
        return CompletionsResult.model_validate({"answers": best})

    async def ask(self, question: Text) -> AnswerResult:
        """Answer a question about facts of an entity from the knowledge graph.

        Write the name of the entity as the graph has it: "What is the capital of France?". The
        values are those of the graph, with the facts that say so; a `refusal` says that the graph
        does not hold the answer, or that no entity was recognised. Counts and two steps are
        understood; use `query` for comparisons and for more steps.
        """
        return AnswerResult.model_validate(await self._answered("ask", question))

    # ---- parts -------------------------------------------------------------
    async def _answered(self, kind: str, question: Any) -> Any:
        """The answer of the batch that the question is in."""
        with self._call():
            (answer,) = await self.batcher.submit(kind, [question])
        return answer

    def _call(self) -> _Call:
        return _Call(self)

    def _link(self, texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [
            [_link_fields(self.graph, link) for link in links_of(self.graph, linked, N_CANDIDATES)]
            for linked in self.linker.link(list(texts))
        ]

    def _facts(self, requests: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
        return [facts_of_name(self.graph, name, most) for name, most in requests]

    def _complete(self, queries: Sequence[tuple[str, str, str, int]]) -> list[Any]:
        assert self.completion is not None, "the tool is there only with a scorer"
        over = self.completion
        return [over.best(head, relation, tail, n)["best"] for head, relation, tail, n in queries]

    def _answer_questions(self, questions: Sequence[str]) -> list[dict[str, Any]]:
        return [_answer_fields(self.asking.answer(question)) for question in questions]


class _Call:
    """One call: refused above the limit of calls, its faults turned into errors of the tool."""

    def __init__(self, tools: GraphTools) -> None:
        self._tools = tools

    def __enter__(self) -> None:
        if self._tools.n_calls >= self._tools.limits.n_requests:
            raise ToolError("too many calls are waiting; call again in a moment")
        self._tools.n_calls += 1

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._tools.n_calls -= 1
        if isinstance(error, TimeoutError):
            raise ToolError(LATE) from error
        if isinstance(error, FAULTS):
            raise ToolError(str(error)) from error


async def _within(work: Coroutine[Any, Any, dict[str, Any]], seconds: float) -> dict[str, Any]:
    return await asyncio.wait_for(work, seconds)


def _link_fields(graph: KnowledgeGraph, link: dict[str, Any]) -> dict[str, Any]:
    candidates = []
    for each in link["candidates"]:
        row = graph.entities.find(each["entity"])
        label = each["entity"] if row is None else graph.label(row)
        description = None if row is None else graph.description(row)
        about = None if description is None else description[:MOST_CHARACTERS]
        candidates.append({"id": each["entity"], "label": label, "description": about})
    return link | {"id": link["entity"], "candidates": candidates}


def _answer_fields(answer: dict[str, Any]) -> dict[str, Any]:
    facts = [dict(zip(("head", "relation", "tail"), fact, strict=True)) for fact in answer["facts"]]
    values = list(answer["values"])
    return answer | {
        "values": values[:MOST_LISTED],
        "n_values": len(values),
        "facts": facts[:MOST_LISTED],
    }


def open_tools(settings: LinkerSettings, kgc: Path | None, limits: Limits) -> GraphTools:
    """Return the tools of the graph and the linker of `settings`, and of the scorer in `kgc`.

    Nothing of a model is imported without a scorer: a client waits while its server starts.
    """
    graph = open_graph(settings)
    completion = None
    if kgc is not None:
        from kept.apps.serve.completing import open_completion

        completion = open_completion(Path(settings.kg), kgc)
    return GraphTools(graph, open_pipeline(settings, graph), completion, limits)


# ---- faults of arguments -------------------------------------------------------------------------
class _GraphServer(MCPServer[None]):
    """A server that says in plain words what is wrong with the arguments of a call."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in tools:
            known = f"the tools are {', '.join(tools)}"
            raise ToolError(
                f"there is no tool {name[:MAX_NAME]!r}{did_you_mean(name, tools)}; {known}"
            )
        fields = tools[name]["properties"]
        unknown = [argument for argument in arguments if argument not in fields]
        if unknown:
            takes = f"{name} takes {', '.join(fields)}"
            raise ToolError(f"{name} has no argument {unknown[0][:MAX_NAME]!r}; {takes}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            faults = [_fault_in_words(name, fault) for fault in error.__cause__.errors()]
            raise ToolError("; ".join(faults)) from error


_KINDS = {"string": "a text", "int": "a whole number"}


def _fault_in_words(tool: str, fault: ErrorDetails) -> str:
    """What is wrong with one argument, and what it should be."""
    name = ".".join(map(str, fault["loc"]))
    limits = fault.get("ctx", {})
    kind = _KINDS.get(fault["type"].partition("_")[0])
    match fault["type"]:
        case "missing":
            return f"{tool} needs the argument {name!r}"
        case "string_too_short":
            return f"{name} is empty; give a text"
        case "string_too_long":
            return f"{name} is longer than {limits['max_length']} characters; give a shorter text"
        case "greater_than_equal":
            return f"{name} is less than {limits['ge']}; give {limits['ge']} or more"
        case "less_than_equal":
            return f"{name} is more than {limits['le']}; give {limits['le']} or less"
        case _ if kind is not None:
            return f"{name} is {shown_value(fault['input'])}; give {kind}"
        case _:
            return f"{name}: {fault['msg'][:MAX_NAME]}"


# ---- the server ----------------------------------------------------------------------------------
def make_mcp_server(tools: GraphTools) -> MCPServer[None]:
    """Return the server of the tools; `complete` is among them where there is a scorer."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        tools.batcher.start()
        try:
            yield
        finally:
            await tools.batcher.stop()

    server = _GraphServer(
        "kept", title="Knowledge graph", version=version("kept"), instructions=_about(tools.graph),
        lifespan=lifespan, log_level="WARNING", subscriptions=False,
    )  # fmt: skip
    named: list[Callable[..., Any]] = [tools.link, tools.facts, tools.query, tools.ask]
    if tools.completion is not None:
        named.append(tools.complete)
    for tool in named:
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=READ_ONLY)
    return server


def _about(graph: KnowledgeGraph) -> str:
    """What a model is told of the graph: its size, its relations with their identifiers."""
    n_listed = min(graph.n_relations, MOST_RELATIONS)
    relations = [_relation(graph, i) for i in range(n_listed)]
    more = f" and {graph.n_relations - n_listed} more" if graph.n_relations > n_listed else ""
    return (
        f"A knowledge graph of {counted(graph.n_entities, 'entities', ',')} and "
        f"{counted(graph.n_triples, 'facts', ',')}. "
        f"Its relations: {', '.join(relations)}{more}."
    )


def _relation(graph: KnowledgeGraph, index: int) -> str:
    name, label = graph.relations.name(index), graph.relation_label(index)
    return name if name == label else f"{label} ({name})"
