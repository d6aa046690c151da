"""`kept ask`: the answer to a question from a graph, and what a decoder writes with its facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kept.apps.cli.options import LinkCase, Threads
from kept.apps.cli.terminal import echo
from kept.suggestions import require_local

if TYPE_CHECKING:
    from kept.decoders.answering.answer import Answerer
    from kept.decoders.asking import Order, Reply

LIKELIER = 0.1
"""Nats of log-probability below which a fact is not said to have made an answer."""


def _local_hub_or_server(value: str | None) -> str | None:
    """A callback: refuses a folder that does not exist; a server has an address."""
    if value is not None and not value.startswith(("http://", "https://")):
        require_local(value)
    return value


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    decoder: Annotated[
        str | None,
        typer.Option(
            callback=_local_hub_or_server,
            help="Write an answer too, with this decoder: smollm2, a folder, a hub name, or the "
            "address of an OpenAI-compatible server (http://127.0.0.1:11434/v1).",
        ),
    ] = None,
    decoder_model: Annotated[
        str, typer.Option(help="Model of the server (default: the first that it lists).")
    ] = "",
    facts_as: Annotated[
        str,
        typer.Option(
            "--as",
            help="How the decoder is shown facts: {kept.decoders.asking:FactsAs}. A decoder reads "
            "words as it is; the other two take little room, and need training.",
        ),
    ] = "words",
    max_facts: Annotated[
        int, typer.Option(min=1, max=256, help="Facts that the decoder is shown, best first.")
    ] = 4,
    order: Annotated[
        str,
        typer.Option(help="Order of the facts: alike (most like the question, by MiniLM), file."),
    ] = "alike",
    directions: Annotated[
        str, typer.Option(help="Facts whose head is named (head), or also the tail (both).")
    ] = "both",
    begin: Annotated[
        str, typer.Option(help='Beginning of the answer, such as "The capital of France is".')
    ] = "",
    most_words: Annotated[
        int, typer.Option("--new", min=1, max=4096, help="Most word pieces that are written.")
    ] = 24,
    least_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Confidence below which there is no answer (default: .4)."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of `kept fit` on questions: answer in the way that it chose."),
    ] = None,
    case: LinkCase = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    threads: Threads = None,
) -> Any:
    """Answer a question from a graph: the values that it has, or that it does not have any.

    The question is linked as `kept link` does, and its words are compared with the relations that
    entities of this kind have. Printed are the values, the facts that say so, and the confidence
    that the graph holds what was asked. With --decoder a language model also writes an answer from
    the facts; each fact is left out in turn, and the number before it is what the answer's
    log-probability loses.

    Example: kept ask "What is the capital of France?" --kg kg/
    """
    import json

    from entity_linking.names.rules.case import Case
    from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answerer
    from kept.decoders.answering.chat_server import is_server, written_answer
    from kept.decoders.answering.encoder import answer_encoder, is_available
    from kept.errors import ConfigError
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker

    decoder_options = {"--as": facts_as != "words", "--order": order != "alike",
             "--directions": directions != "both", "--begin": bool(begin)}  # fmt: skip
    if decoder is None and (
        alone := next((name for name, is_set in decoder_options.items() if is_set), "")
    ):
        raise ConfigError(f"{alone} is for decoders; name one: --decoder smollm2")
    if run is not None:
        if decoder is not None or least_confidence is not None or case is not None:
            raise ConfigError("--run has a decoder, a confidence and a case; leave the options out")
        return _answered_by(run, kg, question, as_json)
    settings = LinkerSettings(kg=str(kg), case=cast(Case | None, case))
    graph = open_graph(settings)
    if not is_available():
        echo(
            "a first answer takes seconds less with ctranslate2: pip install 'kept[ask]'", err=True
        )
    answerer = Answerer(graph, open_linker(settings, graph), answer_encoder(threads or 2))
    least = LEAST_CONFIDENCE if least_confidence is None else least_confidence
    chosen = answerer.answer(question, least=least)
    if decoder is None:
        echo(json.dumps(chosen.as_json(), ensure_ascii=False, indent=1) if as_json else chosen)
        return chosen
    if is_server(decoder):
        facts = answerer.facts_about(question, max_facts)
        text = written_answer(decoder, question, facts, model=decoder_model, most_pieces=most_words)
        reply = {"question": question, "answer": text, "facts": facts}
        lines = [text, *(f"  shown: {fact}" for fact in facts)]
    else:
        options = {
            "facts_as": facts_as, "max_facts": max_facts, "directions": directions,
            "begin": begin, "n_new": most_words,
        }  # fmt: skip
        local = _local_reply(question, answerer, decoder, options, order, threads)
        reply, lines = local.as_json(), [_page(local)]
    if as_json:
        echo(json.dumps(reply | {"chosen": chosen.as_json()}, ensure_ascii=False, indent=1))
    else:
        echo("\n".join([*lines, f"chosen from the graph: {chosen}"]))
    return reply | {"chosen": chosen}


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
    options: dict[str, Any],
    order: str,
    threads: int | None,
) -> Reply:
    """What a decoder on this machine writes, and what each fact did to it."""
    import torch
    from transformers.utils.logging import disable_progress_bar

    from kept.decoders import load_decoder
    from kept.decoders.asking import Asker, AskOptions
    from kept.hosts import load_tokenizer

    options_for_decoder = AskOptions(**options)
    if threads is not None:
        torch.set_num_threads(threads)
    disable_progress_bar()
    ordered = _order(order)
    host, tokenizer = load_decoder(decoder), load_tokenizer(decoder)
    reply = Asker(host, tokenizer, answerer.graph, answerer.linker, ordered).ask(
        question, options_for_decoder
    )
    if reply.facts and reply.facts[0].change < LIKELIER:
        echo(
            "no fact shown made this answer likelier: it is the decoder's own",
            fg="yellow",
            err=True,
        )
    return reply


def _order(name: str) -> Order:
    from kept.decoders.asking import by_likeness, in_order
    from kept.errors import ConfigError
    from kept.linking.sentences import HostSentenceEncoder

    if name not in ("alike", "file"):
        raise ConfigError(f"--order is {name!r}; choose one of alike, file")
    return in_order if name == "file" else by_likeness(HostSentenceEncoder("minilm"))


def _page(reply: Reply) -> str:
    if reply.answer is None:
        return f"no answer: {reply.refusal}"
    lines = [f"{reply.answer}    (probability of a word piece {reply.probability:.2f})"]
    lines += [f"  {one.change:+.2f}  without {one.fact}: {one.without}" for one in reply.facts]
    lines.append(f"  {reply.change:+.2f}  without any fact: {reply.without_facts}")
    if reply.left_out:
        lines.append(f"  {reply.left_out} more facts of {', '.join(reply.entities)} not shown")
    return "\n".join(lines)
