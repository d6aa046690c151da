"""Mention detection: `DictionaryLinker` beside plain peers, the same work in one run.

Work: 100,000 names of one to four words, sentences of about 25 words with about three names each;
find the leftmost-longest names that stand on word boundaries, case-sensitively. Every peer must
find the same mentions. The linker also returns `Link` objects with candidates and priors; the bare
automaton and the other peers return offsets only.

    python benchmarks/mentions.py [--names 100000] [--sentences 3000]
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from entity_linking import DictionaryLinker
from entity_linking.dictionary import _locate
from entity_linking.surfaces import mark
from kg_loaders import Text, TextKind, graph_from_records

Spans = list[list[tuple[int, int]]]
Finder = Callable[[Sequence[str]], Spans]
REPEATS = 5
LONGEST_NAME = 4


def make_names(n_names: int, generator: np.random.Generator) -> list[str]:
    """Distinct names of one to four capitalised pseudo-words, common words often."""
    onsets, vowels = list("bcdfghjklmnprstvwz"), list("aeiou")
    n_words = 40_000
    words = [
        "".join(
            generator.choice(onsets) + generator.choice(vowels)
            for _ in range(generator.integers(1, 4))
        ).capitalize()
        + str(generator.choice(onsets))
        for _ in range(n_words)
    ]
    weights = 1 / (np.arange(n_words) + 5)
    names: dict[str, None] = {}
    while len(names) < n_names:
        length = int(generator.choice(LONGEST_NAME, p=[0.25, 0.45, 0.2, 0.1])) + 1
        drawn = generator.choice(n_words, length, p=weights / weights.sum() if length > 1 else None)
        names[" ".join(words[i] for i in drawn)] = None
    return list(names)


def make_sentences(names: list[str], n: int, generator: np.random.Generator) -> list[str]:
    """Lower-case filler with names strewn in; one name in ten is cut short by a longer word."""
    fillers = [name.lower().split()[0] for name in names[:5000]]
    sentences = []
    for _ in range(n):
        words = [fillers[i] for i in generator.integers(0, len(fillers), 20)]
        for _ in range(int(generator.integers(1, 6))):
            name = names[int(generator.integers(0, len(names)))]
            name += "ish" if generator.random() < 0.1 else ""
            words.insert(int(generator.integers(0, len(words))), name)
        sentences.append(" ".join(words) + ".")
    return sentences


def linker_finder(names: list[str]) -> tuple[Finder, Finder]:
    """The whole linker, and its automaton with marking but without `Link` objects."""
    graph = graph_from_records(Text(f"Q{i}", TextKind.LABEL, name) for i, name in enumerate(names))
    linker = DictionaryLinker(graph, case="sensitive", min_length=1)

    def whole(sentences: Sequence[str]) -> Spans:
        return [
            [(link.mention.start, link.mention.end) for link in linked.links]
            for linked in linker.link(sentences)
        ]

    def bare(sentences: Sequence[str]) -> Spans:
        marked = mark(sentences)
        found: Spans = [[] for _ in sentences]
        hits = linker._automaton.find_matches_as_indexes(marked.haystack)
        for text, start, end, _ in _locate(hits, marked):
            found[text].append((start, end))
        return found

    return whole, bare


def ngram_finder(names: list[str]) -> Finder:
    """A dictionary of names, longest n-gram first at every word."""
    known = set(names)
    word = re.compile(r"\w+")

    def find(sentences: Sequence[str]) -> Spans:
        found: Spans = []
        for sentence in sentences:
            words = [match.span() for match in word.finditer(sentence)]
            spans, i = [], 0
            while i < len(words):
                for n in range(min(LONGEST_NAME, len(words) - i), 0, -1):
                    start, end = words[i][0], words[i + n - 1][1]
                    if sentence[start:end] in known:
                        spans.append((start, end))
                        i += n - 1
                        break
                i += 1
            found.append(spans)
        return found

    return find


def regex_finder(names: list[str]) -> Finder:
    """One alternation, longest name first."""
    pattern = re.compile(
        r"\b(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")\b"
    )
    return lambda sentences: [[m.span() for m in pattern.finditer(s)] for s in sentences]


def spacy_finder(names: list[str]) -> Finder:
    """spaCy's PhraseMatcher, tokenising included."""
    import spacy
    from spacy.matcher import PhraseMatcher
    from spacy.util import filter_spans

    blank = spacy.blank("en")
    matcher = PhraseMatcher(blank.vocab)
    matcher.add("NAME", list(blank.pipe(names)))

    def find(sentences: Sequence[str]) -> Spans:
        return [
            sorted(
                (span.start_char, span.end_char)
                for span in filter_spans(matcher(doc, as_spans=True))
            )
            for doc in blank.pipe(sentences)
        ]

    return find


def main() -> None:
    """Print a line a peer: sentences a second of processor time and the linker's ratio to it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--sentences", type=int, default=3000)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    names = make_names(options.names, generator)
    sentences = make_sentences(names, options.sentences, generator)
    few = sentences[:3]  # the alternation takes a second a sentence

    start = time.process_time()
    whole, bare = linker_finder(names)
    build_s = time.process_time() - start
    peers: list[tuple[str, Finder, Sequence[str], float]] = [
        ("kept: DictionaryLinker", whole, sentences, build_s),
        ("kept: marking and automaton only", bare, sentences, build_s),
    ]
    makers: list[tuple[str, Callable[[list[str]], Finder], Sequence[str]]] = [
        ("n-gram dictionary", ngram_finder, sentences),
        ("regular expression", regex_finder, few),
    ]
    if importlib.util.find_spec("spacy"):
        makers.append(("spaCy PhraseMatcher", spacy_finder, sentences))
    for name, maker, work in makers:
        start = time.process_time()
        finder = maker(names)
        peers.append((name, finder, work, time.process_time() - start))

    expected = whole(sentences)
    n_found = sum(map(len, expected))
    print(f"{len(names)} names, {len(sentences)} sentences, {n_found} mentions")
    rates: dict[str, list[float]] = {name: [] for name, *_ in peers}
    for repeat in range(REPEATS):  # interleaved, so that all peers meet the same noise
        for name, finder, work, _ in peers:
            if work is few and repeat:
                continue
            start = time.process_time()
            found = finder(work)
            rates[name].append(len(work) / (time.process_time() - start))
            agree = sum(a == b for a, b in zip(found, expected, strict=False))
            if agree != len(work):
                print(f"  {name}: {agree} of {len(work)} sentences agree with the linker")
    first = statistics.median(rates[peers[0][0]])
    for name, _, work, built in peers:
        rate = statistics.median(rates[name])
        note = f"  on {len(work)} sentences" if work is few else ""
        print(
            f"{name:34} {rate:>10,.0f} sentences/cpu-s   linker {first / rate:8.2f}x   "
            f"build {built:5.2f} s{note}"
        )
    if not importlib.util.find_spec("spacy"):
        print("spaCy PhraseMatcher                not measured: spaCy is not installed")


if __name__ == "__main__":
    main()
