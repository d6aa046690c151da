"""`kept ask`: the answer to a question from a graph, and what a decoder writes with its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kept.apps.cli.declared import argument, option, required, switch, takes
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


@dataclass(frozen=True, kw_only=True)
class AskCommandOptions:
    """What `kept ask` is given; a field is an option."""

    question: str = argument("The question.")
    kg: Path = required(KG)
    decoder: str | None = option(
        "Also write an answer in words with this decoder: smollm2, a folder, a name on "
        "the Hugging Face hub, or the address of an OpenAI-compatible server "
        "(http://127.0.0.1:11434/v1).",
        callback=_local_hub_or_server,
    )
    decoder_model: str = option(
        "With the address of a server: the name of its model (default: the first that it lists).",
        default="",
    )
    decoder_backend: str = option(
        "What runs a decoder on this machine: torch, llama.cpp (the decoder smollm2 with "
        "facts as words: seven times faster, in a quarter of the memory, multiplied in eight "
        "bits), or auto (llama.cpp where it can and is installed: pip install "
        "'kept[llamacpp]').",
        default="auto",
    )
    facts_as: str = option(
        "How the decoder gets facts: {kept.decoders.asking:FactsAs}. Any decoder can "
        "read words. The other two are shorter, but need a decoder that was trained on "
        "them.",
        "--as",
        default="words",
    )
    max_facts: int = option(
        "Largest number of facts that the decoder gets, best first.", default=4, bounds=(1, 256)
    )
    order: str = option(
        "Which facts come first: alike (one of each relation, the relation most similar "
        "to the question first, by MiniLM), or file (order of the graph).",
        default="alike",
    )
    directions: str = option(
        "head: only facts whose head is named in the question. both: also facts whose "
        "tail is named.",
        default="both",
    )
    begin: str = option(
        'First words of the answer, which the decoder continues, such as "The capital '
        'of France is".',
        default="",
    )
    most_words: int = option(
        "Longest answer of the decoder, in word pieces.", "--new", default=24, bounds=(1, 4096)
    )
    least_confidence: float | None = option(
        "Smallest confidence at which an answer is given, from 0 to 1 (default: 0.4). "
        "Raise it for fewer wrong answers.",
        bounds=(0, 1),
    )
    run: Path | None = option(
        "Folder of a run of `kept fit` on questions. Its settings are used for the answer."
    )
    case: LinkCase = None
    as_json: bool = switch("Print JSON.", "--json")
    threads: Threads = None


@takes(AskCommandOptions)
def ask(options: AskCommandOptions) -> Any:
    """Answer a question from a graph, or print that the graph does not contain the answer.

    The question is linked as by `kept link`, and its words are compared with the relations that
    entities of this kind have. Printed are the answers, the facts that support them, and the
    confidence that the graph contains what was asked. With --decoder a language model also writes
    an answer from the facts. The number before each fact is how much the log-probability of that
    answer falls without the fact.

    Example: kept ask "What is the capital of France?" --kg kg/
    """
    import json

    from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answerer
    from kept.decoders.answering.chat_server import is_server, written_answer
    from kept.decoders.answering.encoder import answer_encoder, is_available
    from kept.linking.linkers import open_graph, open_linker, settings_from

    _require_decoder_of(options)
    if options.run is not None:
        return _answered_by(options.run, options)
    decoder = options.decoder
    is_local = decoder is not None and not is_server(decoder)
    backend = _backend(options.decoder_backend, str(decoder), options.facts_as) if is_local else ""
    settings = settings_from(options, "kg", "case")
    graph = open_graph(settings)
    if not is_available():
        echo(
            "a first answer takes seconds less with ctranslate2: pip install 'kept[ask]'", err=True
        )
    answerer = Answerer(graph, open_linker(settings, graph), answer_encoder(options.threads or 1))
    least = LEAST_CONFIDENCE if options.least_confidence is None else options.least_confidence
    chosen = answerer.answer(options.question, least=least)
    if decoder is None:
        return _printed(chosen, options)
    if is_server(decoder):
        facts = answerer.facts_about(options.question, options.max_facts)
        text = written_answer(
            decoder,
            options.question,
            facts,
            model=options.decoder_model,
            most_pieces=options.most_words,
        )
        reply = {"question": options.question, "answer": text, "facts": facts}
        lines = [text, f"  written by {decoder}", *(f"  shown: {fact}" for fact in facts)]
    else:
        local = _local_reply(options, answerer, decoder, backend)
        reply, lines = local.as_json() | {"backend": backend}, [_page(local, decoder, backend)]
    if options.as_json:
        echo(json.dumps(reply | {"chosen": chosen.as_json()}, ensure_ascii=False, indent=1))
    else:
        echo("\n".join([*lines, f"chosen from the graph: {chosen}"]))
    return reply | {"chosen": chosen}


def _require_decoder_of(options: AskCommandOptions) -> None:
    """Raise `ConfigError` for options about a decoder that is not there, or is of another kind."""
    from kept.decoders.answering.chat_server import is_server
    from kept.errors import ConfigError

    for_local = {
        "--as": options.facts_as != "words",
        "--order": options.order != "alike",
        "--directions": options.directions != "both",
        "--begin": bool(options.begin),
        "--decoder-backend": options.decoder_backend != "auto",
    }
    for_any = {"--max-facts": options.max_facts != 4, "--new": options.most_words != 24}
    decoder = options.decoder
    if decoder is None and (alone := _first_set(for_local | for_any)):
        raise ConfigError(f"{alone} is for decoders; name one: --decoder smollm2")
    if decoder is not None and is_server(decoder) and (alone := _first_set(for_local)):
        raise ConfigError(f"{alone} is for local decoders; leave it out, or name a folder")
    of_run = (decoder, options.least_confidence, options.case)
    if options.run is not None and any(value is not None for value in of_run):
        raise ConfigError("--run has a decoder, a confidence and a case; leave the options out")


def _first_set(options: Mapping[str, bool]) -> str:
    """Return the first option that is given; "" for none."""
    return next((name for name, is_set in options.items() if is_set), "")


def _printed(answer: Any, options: AskCommandOptions) -> Any:
    import json

    is_json = options.as_json
    echo(json.dumps(answer.as_json(), ensure_ascii=False, indent=1) if is_json else answer)
    return answer


def _answered_by(run: Path, options: AskCommandOptions) -> Any:
    """The answer of a folder of `kept fit`, printed."""
    from kept.lab.questions.fitted import FittedAnswerer

    return _printed(FittedAnswerer.open(run, options.kg).answer(options.question), options)


def _local_reply(
    options: AskCommandOptions, answerer: Answerer, decoder: str, backend: str
) -> Reply:
    """What a decoder on this machine writes, and what each fact did to it."""
    import torch

    from kept.decoders import asking, load_decoder
    from kept.decoders.llama_cpp import LlamaCppDecoder
    from kept.hosts import load_tokenizer, smollm2_file

    threads = options.threads
    settings = asking.AskOptions(
        facts_as=cast("asking.FactsAs", options.facts_as),
        max_facts=options.max_facts,
        directions=cast(Any, options.directions),
        begin=options.begin,
        n_new=options.most_words,
    )
    if threads is not None:
        torch.set_num_threads(threads)
    ordered, matcher = _order(options.order, answerer.matcher)
    tokenizer = load_tokenizer(decoder)
    host = (
        LlamaCppDecoder(
            smollm2_file(), n_positions=tokenizer.model_max_length, n_threads=threads or 1
        )
        if backend == LLAMA_CPP
        else load_decoder(decoder)
    )
    asker = asking.Asker(host, tokenizer, answerer.graph, answerer.linker, ordered, matcher)
    reply = asker.ask(options.question, settings)
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
