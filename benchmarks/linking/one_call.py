"""One call at a time: a sentence, an entity, against the best that does one at a time.

    KEPT_DATA=FOLDER python benchmarks/linking/one_call.py [--names 100000] [--sentences 1000]

Mentions: the names and sentences of `linking.py`. The peer is an Aho-Corasick automaton
(pyahocorasick) whose matches are kept where a word begins and ends, the longest leftmost ones; a
tie with `NameLinker.spans` is counted, `equal_share`. Neighbours: those of `neighbours.py`, against
a dict of lists. Each call is timed by itself, the least of `--repeat` rounds, so that what other
processes take is left out; a row has the mean over all calls, in microseconds. `first` is the first
time that a sentence is met, by a linker that has met none: surfaces are looked up and ranked.
JSON lines.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "graphs"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from link_scale import make_names
from linking import make_graph, make_sentences, mention_linker, read_names, read_sentences
from neighbours import N_BEST, synthetic

from benchmarks.measuring import is_missing, write_line
from entity_linking import DictionaryLinker
from entity_linking.names import NameIndex, NameLinker
from kept.apps.texts import link
from kg_loaders import KnowledgeGraph, atlas
from kg_loaders.neighbours import neighbours

Call = Callable[[Any], Any]


def each(calls: dict[str, Call], items: Sequence[Any], repeat: int) -> dict[str, float]:
    """Microseconds of a call, the mean over items of the least of `repeat` rounds, in turn."""
    clock = time.perf_counter_ns
    best = {name: [sys.maxsize] * len(items) for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            least = best[name]
            for index, item in enumerate(items):
                start = clock()
                call(item)
                spent = clock() - start
                if spent < least[index]:
                    least[index] = spent
    return {name: sum(least) / len(items) / 1e3 for name, least in best.items()}


def row(name: str, ours: float, theirs: float | None = None, /, **more: Any) -> None:
    """Print a row: microseconds of ours and of a peer."""
    ratio: dict[str, float] = {}
    if theirs is not None:
        ratio = {"peer_us": round(theirs, 2), "times_as_fast": round(theirs / ours, 2)}
    write_line(row=name, kept_us=round(ours, 2), **ratio, **more)


# ---- mentions ------------------------------------------------------------------------------------
def automaton_finder(names: Sequence[str]) -> Call:
    """Leftmost-longest names between borders of words, by pyahocorasick."""
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for name in names:
        automaton.add_word(name, len(name))
    automaton.make_automaton()

    def find(text: str) -> list[tuple[int, int]]:
        longest: dict[int, int] = {}
        last = len(text) - 1
        for end, length in automaton.iter(text):
            start = end - length + 1
            if start and text[start - 1].isalnum() and text[start].isalnum():
                continue
            if end < last and text[end].isalnum() and text[end + 1].isalnum():
                continue
            if longest.get(start, -1) <= end:
                longest[start] = end + 1
        spans, free = [], 0
        for start, stop in sorted(longest.items()):
            if start >= free:
                spans.append((start, stop))
                free = stop
        return spans

    return find


def measure_texts(names: Sequence[str], sentences: Sequence[str], repeat: int) -> None:
    linker, _ = mention_linker(names)
    first = each({"first": lambda text: linker.spans([text])}, sentences, 1)["first"]
    calls: dict[str, Call] = {"kept": lambda text: linker.spans([text])[0]}
    if not is_missing("ahocorasick", row="mentions of a sentence", peer="pyahocorasick"):
        calls["peer"] = automaton_finder(names)
    spent = each(calls, sentences, repeat)
    more: dict[str, Any] = {}
    if "peer" in calls:
        same = sum(calls["kept"](text) == calls["peer"](text) for text in sentences)
        more = {"peer": "pyahocorasick", "equal_share": round(same / len(sentences), 4)}
    row(
        "mentions of a sentence", spent["kept"], spent.get("peer"), first_us=round(first, 1), **more
    )

    graph = make_graph(names)
    by_name, dictionary = NameLinker(NameIndex.build(graph)), DictionaryLinker(graph)
    expected = dictionary.link(sentences)
    link(sentences[0], graph)
    calls = {
        "NameLinker": lambda text: by_name.link([text]),
        "DictionaryLinker": dictionary.link,
        "kept.link": lambda text: link(text, graph),
    }
    spent = each(calls, sentences, repeat)
    equal = [dictionary.link(text) for text in sentences] == expected
    row("NameLinker, a sentence", spent["NameLinker"])
    row("DictionaryLinker, a sentence", spent["DictionaryLinker"], equal_to_a_batch=equal)
    row("kept.link, a sentence", spent["kept.link"])


# ---- entities ------------------------------------------------------------------------------------
def measure_entities(graph: KnowledgeGraph, n: int, repeat: int) -> None:
    facts: dict[int, list[tuple[int, int, int]]] = {}
    rows: dict[int, list[int]] = {}
    for number, (head, relation, tail) in enumerate(graph.triples.tolist()):
        facts.setdefault(head, []).append((head, relation, tail))
        rows.setdefault(head, []).append(number)
    degrees = np.diff(graph.out_offsets)
    hubs = np.argsort(-degrees)[:n].tolist()
    entities = np.random.default_rng(0).integers(0, graph.n_entities, n).tolist()
    draws = np.random.default_rng(0)

    def ours(policy: str) -> Call:
        return lambda entity: neighbours(graph, [entity], N_BEST, policy=policy, generator=draws)[0]

    def sampled(entity: int) -> list[int]:
        every = rows.get(entity, [])
        return every if len(every) <= N_BEST else random.sample(every, N_BEST)

    def first(entity: int) -> list[int]:
        return rows.get(entity, [])[:N_BEST]

    for who, some in (("an entity", entities), ("a hub", hubs)):
        about = {"degree": round(float(degrees[some].mean()), 1), "peer": "dict"}
        spent = each({"kept": ours("random"), "peer": sampled}, some, repeat)
        row(f"15 random neighbours of {who}", spent["kept"], spent["peer"], **about)
        spent = each({"kept": ours("file"), "peer": first}, some, repeat)
        equal = all(ours("file")(entity).tolist() == first(entity) for entity in some)
        row(f"15 first neighbours of {who}", spent["kept"], spent["peer"], equal=equal, **about)
        spent = each({"kept": graph.outgoing, "peer": lambda e: facts.get(e, [])}, some, repeat)
        row(f"triples of {who}", spent["kept"], spent["peer"], **about)
    world = atlas.graph()
    names = list(world.entities)[:n]
    spent = each({"kept": lambda name: world[name].facts}, names, repeat)
    row("facts in words of an entity of the atlas", spent["kept"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    root = os.environ.get("KEPT_DATA")
    if root:
        every = [name.surface for name in read_names(Path(root)) if len(name.surface) > 1]
        sentences = read_sentences(Path(root), options.sentences)
    else:
        every = make_names(2 * options.names, generator)
        sentences = make_sentences(every, options.sentences, generator)
    distinct = list(dict.fromkeys(every))
    n_names = min(options.names, len(distinct))
    chosen = np.sort(generator.choice(len(distinct), n_names, replace=False)).tolist()
    measure_texts([distinct[i] for i in chosen], sentences, options.repeat)
    measure_entities(synthetic(), options.sentences, options.repeat)


if __name__ == "__main__":
    main()
