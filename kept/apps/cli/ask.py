"""`kept ask`: the answer to a question from a graph, and what a decoder writes with its facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kept.apps.cli.options import LinkCase, Threads
from kept.apps.cli.terminal import echo
from kept.help_texts import KG
from kept.suggestions import require_local

if TYPE_CHECKING:
    from kept.decoders.answering.answer import Answerer
    from kept.decoders.answering.relations import RelationMatcher
    from kept.decoders.asking import Order, Reply

LLAMA_CPP = "llama.cpp"
LIKELIER = 0.1
"""Nats of log-probability below which a fact is not said to have made an answer."""


def _local_hub_or_server(value: str | None) -> str | None:
    """A callback: refuses a folder that does not exist; a server has an address."""
    if value is not None and not value.startswith(("http://", "https://")):
        require_local(value)
    return value


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    decoder: Annotated[
        str | None,
        typer.Option(
            callback=_local_hub_or_server,
            help="Also write an answer in words with this decoder: smollm2, a folder, a name on "
            "the Hugging Face hub, or the address of an OpenAI-compatible server "
            "(http://127.0.0.1:11434/v1).",
        ),
    ] = None,
    decoder_model: Annotated[
        str,
        typer.Option(
            help="With the address of a server: the name of its model (default: the first that "
            "it lists)."
        ),
    ] = "",
    decoder_backend: Annotated[
        str,
        typer.Option(
            help="What runs a decoder on this machine: torch, llama.cpp (the decoder smollm2 with "
            "facts as words: seven times faster, in a quarter of the memory, multiplied in eight "
            "bits), or auto (llama.cpp where it can and is installed: pip install "
            "'kept[llamacpp]')."
        ),
    ] = "auto",
    facts_as: Annotated[
        str,
        typer.Option(
            "--as",
            help="How the decoder gets facts: {kept.decoders.asking:FactsAs}. Any decoder can "
            "read words. The other two are shorter, but need a decoder that was trained on "
            "them.",
        ),
    ] = "words",
    max_facts: Annotated[
        int,
        typer.Option(
            min=1, max=256, help="Largest number of facts that the decoder gets, best first."
        ),
    ] = 4,
    order: Annotated[
        str,
        typer.Option(
            help="Which facts come first: alike (one of each relation, the relation most similar "
            "to the question first, by MiniLM), or file (order of the graph)."
        ),
    ] = "alike",
    directions: Annotated[
        str,
        typer.Option(
            help="head: only facts whose head is named in the question. both: also facts whose "
            "tail is named."
        ),
    ] = "both",
    begin: Annotated[
        str,
        typer.Option(
            help='First words of the answer, which the decoder continues, such as "The capital '
            'of France is".'
        ),
    ] = "",
    most_words: Annotated[
        int,
        typer.Option(
            "--new", min=1, max=4096, help="Longest answer of the decoder, in word pieces."
        ),
    ] = 24,
    least_confidence: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Smallest confidence at which an answer is given, from 0 to 1 (default: 0.5). "
            "Raise it for fewer wrong answers.",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run of `kept fit` on questions. Its settings are used for the answer."
        ),
    ] = None,
    case: LinkCase = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    threads: Threads = None,
) -> Any:
    """Answer a question from a graph, or print that the graph does not contain the answer.

    The question is linked as by `kept link`, and its words are compared with the relations that
    entities of this kind have. Printed are the answers, the facts that support them, and the
    confidence that the graph contains what was asked. With --decoder a language model also writes
    an answer from the facts. The number before each fact is how much the log-probability of that
    answer falls without the fact.

    Example: kept ask "What is the capital of France?" --kg kg/
    """
    import json

    from entity_linking.names.rules.case import Case
    from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answerer
    from kept.decoders.answering.chat_server import is_server, written_answer
    from kept.decoders.answering.encoder import answer_encoder, is_available
    from kept.errors import ConfigError
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker

    for_local = {"--as": facts_as != "words", "--order": order != "alike",
                 "--directions": directions != "both", "--begin": bool(begin),
                 "--decoder-backend": decoder_backend != "auto"}  # fmt: skip
    for_any = {"--max-facts": max_facts != 4, "--new": most_words != 24}
    if decoder is None and (alone := _first_set(for_local | for_any)):
        raise ConfigError(f"{alone} is for decoders; name one: --decoder smollm2")
    if decoder is not None and is_server(decoder) and (alone := _first_set(for_local)):
        raise ConfigError(f"{alone} is for local decoders; leave it out, or name a folder")
    if run is not None:
        if decoder is not None or least_confidence is not None or case is not None:
            raise ConfigError("--run has a decoder, a confidence and a case; leave the options out")
        return _answered_by(run, kg, question, as_json)
    backend = (
        ""
        if decoder is None or is_server(decoder)
        else _backend(decoder_backend, decoder, facts_as)
    )
    settings = LinkerSettings(kg=str(kg), case=cast(Case | None, case))
    graph = open_graph(settings)
    if not is_available():
        echo(
            "a first answer takes seconds less with ctranslate2: pip install 'kept[ask]'", err=True
        )
    answerer = Answerer(graph, open_linker(settings, graph), answer_encoder(threads or 1))
    least = LEAST_CONFIDENCE if least_confidence is None else least_confidence
    chosen = answerer.answer(question, least=least)
    if decoder is None:
        echo(json.dumps(chosen.as_json(), ensure_ascii=False, indent=1) if as_json else chosen)
        return chosen
    if is_server(decoder):
        facts = answerer.facts_about(question, max_facts)
        text = written_answer(decoder, question, facts, model=decoder_model, most_pieces=most_words)
        reply = {"question": question, "answer": text, "facts": facts}
        lines = [text, f"  written by {decoder}", *(f"  shown: {fact}" for fact in facts)]
    else:
        options = {
            "facts_as": facts_as, "max_facts": max_facts, "directions": directions,
            "begin": begin, "n_new": most_words,
        }  # fmt: skip
        local = _local_reply(question, answerer, decoder, backend, options, order, threads)
        reply, lines = local.as_json() | {"backend": backend}, [_page(local, decoder, backend)]
    if as_json:
        echo(json.dumps(reply | {"chosen": chosen.as_json()}, ensure_ascii=False, indent=1))
    else:
        echo("\n".join([*lines, f"chosen from the graph: {chosen}"]))
    return reply | {"chosen": chosen}


def _first_set(options: Mapping[str, bool]) -> str:
    """Return the first option that is given; "" for none."""
    return next((name for name, is_set in options.items() if is_set), "")


def _answered_by(run: Path, kg: Path, question: str, as_json: bool) -> Any:
    """The answer of a folder of `kept fit`, printed."""
    import json

    from kept.lab.questions.fitted import FittedAnswerer

    answer = FittedAnswerer.open(run, kg).answer(question)
    echo(json.dumps(answer.as_json(), ensure_ascii=False, indent=1) if as_json else answer)
    return answer


def _local_reply(
    question: str,
    answerer: Answerer,
    decoder: str,
    backend: str,
    options: dict[str, Any],
    order: str,
    threads: int | None,
) -> Reply:
    """What a decoder on this machine writes, and what each fact did to it."""
    import torch

    from kept.decoders import load_decoder
    from kept.decoders.asking import Asker, AskOptions
    from kept.decoders.llama_cpp import LlamaCppDecoder
    from kept.hosts import load_tokenizer, smollm2_file

    options_for_decoder = AskOptions(**options)
    if threads is not None:
        torch.set_num_threads(threads)
    ordered, matcher = _order(order, answerer.matcher)
    tokenizer = load_tokenizer(decoder)
    host = (
        LlamaCppDecoder(
            smollm2_file(), n_positions=tokenizer.model_max_length, n_threads=threads or 1
        )
        if backend == LLAMA_CPP
        else load_decoder(decoder)
    )
    reply = Asker(host, tokenizer, answerer.graph, answerer.linker, ordered, matcher).ask(
        question, options_for_decoder
    )
    if reply.facts and reply.facts[0].change < LIKELIER:
        echo(
            "no fact made this answer likelier: it comes from the decoder itself",
            fg="yellow",
            err=True,
        )
    return reply


def _backend(name: str, decoder: str, facts_as: str) -> str:
    """Return what runs a decoder; raises `ConfigError` for a name that there is not.

    And for llama.cpp where it cannot run this decoder, or is not installed.
    """
    from kept.decoders.llama_cpp import INSTALL, is_available
    from kept.errors import ConfigError, MissingExtraError

    if name not in ("auto", "torch", LLAMA_CPP):
        raise ConfigError(f"--decoder-backend is {name!r}; choose one of auto, torch, {LLAMA_CPP}")
    can_run = decoder == "smollm2" and facts_as == "words"
    if name == LLAMA_CPP and not can_run:
        raise ConfigError(
            f"llama.cpp runs the decoder smollm2 with facts as words, not {decoder} with facts as "
            f"{facts_as}; choose --decoder-backend torch"
        )
    if name == LLAMA_CPP and not is_available():
        raise MissingExtraError(f"--decoder-backend llama.cpp needs xllamacpp: {INSTALL}")
    if name != "auto":
        return name
    return LLAMA_CPP if can_run and is_available() else "torch"


def _order(name: str, matcher: RelationMatcher) -> tuple[Order, RelationMatcher | None]:
    """The order of facts, and what puts the likeliest relation first."""
    from kept.decoders.asking import by_likeness, in_order
    from kept.errors import ConfigError

    if name not in ("alike", "file"):
        raise ConfigError(f"--order is {name!r}; choose one of alike, file")
    return (in_order, None) if name == "file" else (by_likeness(matcher.encoder), matcher)


def _page(reply: Reply, decoder: str, backend: str) -> str:
    if reply.answer is None:
        return f"no answer: {reply.refusal}"
    lines = [f"{reply.answer}    (probability of a word piece {reply.probability:.2f})"]
    lines.append(f"  written by {decoder}, run by {backend}")
    lines += [f"  {one.change:+.2f}  without {one.fact}: {one.without}" for one in reply.facts]
    lines.append(f"  {reply.change:+.2f}  without any fact: {reply.without_facts}")
    if reply.left_out:
        lines.append(f"  {reply.left_out} more facts of {', '.join(reply.entities)} not shown")
    return "\n".join(lines)
