"""`kept ask`: a decoder's answer to a question, from a graph's facts, and what each fact did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kept.cli.options import Threads, local_or_hub
from kept.cli.terminal import echo

if TYPE_CHECKING:
    from kept.decoders.asking import Order, Reply

LIKELIER = 0.1
"""Nats of log-probability below which a fact is not said to have made an answer."""


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    decoder: Annotated[
        str,
        typer.Option(callback=local_or_hub, help="A decoder: smollm2, a folder or a hub name."),
    ] = "smollm2",
    facts_as: Annotated[
        str,
        typer.Option(
            "--as",
            help="How facts are shown: {kept.decoders.asking:FactsAs}. A decoder reads words as it "
            "is; the other two need little room, and training to be written from.",
        ),
    ] = "words",
    max_facts: Annotated[
        int, typer.Option(min=1, max=256, help="Number of facts shown, best first.")
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
        int, typer.Option("--new", min=1, max=4096, help="Word pieces written at most.")
    ] = 24,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    threads: Threads = None,
) -> Any:
    """Answer a question by a decoder with facts of a graph in view, and say what each fact did.

    The question is linked as `kept link` does. Each fact shown is left out in turn: the number
    before it is what the answer's log-probability loses, and the text behind it what is written
    then. Without an entity or a fact nothing is answered.

    Example: kept ask "What is the capital of France?" --kg kg/
    """
    import json

    import torch
    from transformers.utils.logging import disable_progress_bar

    from kept.decoders import load_decoder
    from kept.decoders.asking import Asker, AskOptions
    from kept.hosts import load_tokenizer
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker

    options = AskOptions(
        facts_as=facts_as,  # type: ignore[arg-type]
        max_facts=max_facts,
        directions=directions,  # type: ignore[arg-type]
        begin=begin,
        n_new=most_words,
    )
    if threads is not None:
        torch.set_num_threads(threads)
    disable_progress_bar()
    settings = LinkerSettings(kg=str(kg))
    graph, ordered = open_graph(settings), _order(order)
    host, tokenizer = load_decoder(decoder), load_tokenizer(decoder)
    asker = Asker(host, tokenizer, graph, open_linker(settings, graph), ordered)
    reply = asker.ask(question, options)
    if as_json:
        echo(json.dumps(reply.as_json(), ensure_ascii=False, indent=1))
        return reply
    echo(_page(reply))
    if reply.facts and reply.facts[0].change < 0.1:
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
