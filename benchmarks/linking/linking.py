"""Mention detection beside PhraseMatcher and flashtext, the whole pipeline, and fuzzy retrieval.

    KEPT_DATA=FOLDER python benchmarks/linking/linking.py [--names 100000] [--sentences 4000]

Mentions: 100,000 aliases of Wikidata over sentences of T-REx (without KEPT_DATA: made ones); every
peer hands out the character offsets of the leftmost-longest names, exact case, and is compared with
`NameLinker.spans` mention by mention. What differs is counted by its reason:

    letter beside it      flashtext knows ASCII letters only, so it cuts "Ren" out of "René"
    apostrophe or hyphen  the linker reads the typographic ones as plain
    inside a token        spaCy finds whole tokens; the linker's words end at every sign
    other of two          another mention that overlaps it, itself different, was taken
    lost beside others    found when it stands alone; flashtext does not go back to a shorter name
                          when a longer one fails, spaCy cuts tokens otherwise there
    not found alone       spaCy cuts the name otherwise when it stands alone; likewise the linker

Pipeline: links with candidates and priors, one row a linker; linkers remember the surfaces they
have met, so the first time is a field of its own. Fuzzy: names with one or two edits searched
among all labels and aliases. Processor time of one thread, best of repeats; peers take turns, so
that all meet the same noise. JSON lines; the exponents are over three sizes of the sentences and of
the aliases.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from link_scale import make_names

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import (
    Spent,
    compared,
    growth,
    in_turn,
    is_missing,
    once,
    three_sizes,
    write_line,
)
from entity_linking import DictionaryLinker, Linker, read_trex
from entity_linking.detection import EndToEnd, NamesAndTagger
from entity_linking.fuzzy.index import FuzzyIndex
from entity_linking.fuzzy.ngrams import Name, form_of
from entity_linking.names import Gates, NameIndex, NameLinker
from entity_linking.surfaces import normalise
from kept.linking.linkers import NAMED
from kept.linking.tagging import open_tagger
from kg_loaders import (
    DamagePolicy,
    DamageReport,
    KnowledgeGraph,
    Text,
    TextKind,
    graph_from_records,
)

Spans = list[list[tuple[int, int]]]
Finder = Callable[[Sequence[str]], Spans]
N_TYPOS = 1000


# ---- work ----------------------------------------------------------------------------------------
def read_names(root: Path) -> list[Name]:
    """Labels (weight 10) and aliases (weight 1) of Wikidata."""
    names = []
    for kind, weight in (("labels", 10), ("aliases", 1)):
        file = root / "wikidata_labels" / f"qid_{kind}.tsv.gz"
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            for line in islice(lines, 1, None):
                entity, surface, _ = line.split("\t")
                names.append(Name(entity, surface, weight))
    return names


def read_sentences(root: Path, n: int) -> list[str]:
    """Every fifth distinct evidence of T-REx, the first ones of the first relations."""
    report = DamageReport(policy=DamagePolicy.SKIP)
    distinct: dict[str, None] = {}
    for example in read_trex(root / "lama" / "TREx", report):
        distinct[example.linked.text] = None
        if len(distinct) == 5 * n:
            break
    return list(distinct)[::5]


def make_sentences(names: Sequence[str], n: int, generator: np.random.Generator) -> list[str]:
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


def slip(name: str, generator: np.random.Generator) -> str:
    """One edit: a letter too many, too few, another, or two swapped."""
    position, kind = int(generator.integers(len(name) - 1)), int(generator.integers(4))
    letter = chr(ord("a") + int(generator.integers(26)))
    before, after = name[:position], name[position:]
    return before + (letter + after, after[1:], letter + after[1:], after[1::-1] + after[2:])[kind]


# ---- peers ---------------------------------------------------------------------------------------
def spacy_finder(names: Sequence[str]) -> Finder:
    """spaCy's PhraseMatcher on a blank English pipeline, tokenising included."""
    import spacy
    from spacy.matcher import PhraseMatcher

    blank = spacy.blank("en")
    matcher = PhraseMatcher(blank.vocab)
    matcher.add("NAME", list(blank.pipe(names)))

    def find(sentences: Sequence[str]) -> Spans:
        hits: Spans = []
        for doc in blank.pipe(sentences):
            spans: list[tuple[int, int]] = []
            free = 0
            for start, end in sorted({(s, -e) for _, s, e in matcher(doc)}):
                if start >= free:
                    free = -end
                    last = doc[free - 1]
                    spans.append((doc[start].idx, last.idx + len(last)))
            hits.append(spans)
        return hits

    return find


def flashtext_finder(names: Sequence[str]) -> Finder:
    """flashtext's trie of characters."""
    from flashtext import KeywordProcessor

    processor = KeywordProcessor(case_sensitive=True)
    for name in names:
        processor.add_keyword(name)
    return lambda sentences: [
        [(start, end) for _, start, end in processor.extract_keywords(sentence, span_info=True)]
        for sentence in sentences
    ]


PEERS: dict[str, tuple[str, Callable[[Sequence[str]], Finder]]] = {
    "spaCy PhraseMatcher": ("spacy", spacy_finder),
    "flashtext": ("flashtext", flashtext_finder),
}


# ---- measuring -----------------------------------------------------------------------------------
def differences(sentences: Sequence[str], only: Finder, left: Spans, right: Spans) -> Counter[str]:
    """Why mentions stand in `left` alone; `only` is the finder that missed them."""
    reasons: Counter[str] = Counter()
    for sentence, here, there in zip(sentences, left, right, strict=True):
        for start, end in here:
            if (start, end) in there:
                continue
            neighbours = sentence[start - 1 : start] + sentence[end : end + 1]
            surface = sentence[start:end]
            if any(char.isalpha() and not char.isascii() for char in neighbours):
                reasons["letter beside it"] += 1
            elif normalise(surface, fold=False)[0] != surface:
                reasons["apostrophe or hyphen"] += 1
            elif any(s < end and start < e for s, e in there):
                reasons["other of two"] += 1
            elif any(char.isalnum() or char in ".'-–/" for char in neighbours):
                reasons["inside a token"] += 1
            elif only([surface])[0] == [(0, len(surface))]:
                reasons["lost beside others"] += 1
            else:
                reasons["not found alone"] += 1
    return reasons


def compare_mentions(
    names: Sequence[str], sentences: Sequence[str], peers: Sequence[str], repeats: int
) -> None:
    """A line a peer: seconds, how many times faster the linker is, agreement and why not."""
    linker, built = mention_linker(names)
    finders: dict[str, Finder] = {"kept": linker.spans}
    build_s = {"kept": built}
    for name in peers:
        package, maker = PEERS[name]
        if is_missing(package, row="mentions", peer=name):
            continue
        timed = once(lambda maker=maker: maker(names))
        finders[name], build_s[name] = timed.result, timed.processor
    ours, *others = in_turn([lambda f=f: f(sentences) for f in finders.values()], repeats)
    for name, spent in zip([*finders][1:], others, strict=True):
        expected, result = ours.result, spent.result
        n_common = sum(len(set(a) & set(b)) for a, b in zip(result, expected, strict=True))
        n_found, n_expected = sum(map(len, result)), sum(map(len, expected))
        compared(
            "mentions", ours, spent, equal=None, peer=name, aliases=len(names),
            sentences=len(sentences), kept_mentions=n_expected, peer_mentions=n_found,
            common=round(n_common / (n_found + n_expected - n_common), 4),
            kept_only=differences(sentences, finders[name], expected, result),
            peer_only=differences(sentences, linker.spans, result, expected),
            kept_build_s=round(build_s["kept"], 1), peer_build_s=round(build_s[name], 1),
        )  # fmt: skip
    grow_mentions(names, sentences, repeats)


def mention_linker(names: Sequence[str]) -> tuple[NameLinker, float]:
    """A linker that finds every name as it is written, and the seconds its index took."""
    built = once(lambda: NameIndex.build(make_graph(names), case="sensitive", variants=False))
    return NameLinker(built.result, Gates(min_length=1, stop_words=frozenset())), built.processor


def grow_mentions(names: Sequence[str], sentences: Sequence[str], repeats: int) -> None:
    linkers = [mention_linker(names[::step]) for step in (4, 2, 1)]
    sizes = three_sizes(len(sentences))
    whole = linkers[-1][0].spans
    by_sentences = in_turn([lambda n=n: whole(sentences[:n]) for n in sizes], repeats)
    growth("mentions", "sentences", sizes, [spent.processor for spent in by_sentences])
    aliases = [len(names[::step]) for step in (4, 2, 1)]
    by_aliases = in_turn([lambda f=f: f.spans(sentences) for f, _ in linkers], repeats)
    growth("mentions", "aliases", aliases, [spent.processor for spent in by_aliases])
    growth("index for mentions", "aliases", aliases, [spent for _, spent in linkers])


def measure_pipelines(
    names: Sequence[str], sentences: Sequence[str], repeats: int, tagger: str | None
) -> None:
    """A line a linker: from sentences to links with candidates, priors, choice and confidence."""
    graph = make_graph(names)
    linkers: dict[str, Linker] = {
        "DictionaryLinker": DictionaryLinker(graph),
        "DictionaryLinker, exact": DictionaryLinker(graph, exact=True),
        "NameLinker (mentions, prior)": NameLinker(NameIndex.build(graph)),
    }
    if tagger is not None:
        named = NameLinker(NameIndex.build(graph), NAMED)
        both = NamesAndTagger(named, open_tagger(tagger))
        linkers["DictionaryLinker and a tagger"] = EndToEnd(both, DictionaryLinker(graph))
    sizes = three_sizes(len(sentences))
    gc.collect()
    gc.freeze()  # what the peers hold is not searched time and again while linkers make objects
    for name, whole in linkers.items():
        first = once(lambda whole=whole: whole.link(sentences))
        runs = [lambda n=n, whole=whole: whole.link(spread(sentences, n)) for n in sizes]
        parts: list[Spent] = in_turn(runs, repeats)
        write_line(
            row="texts to links", linker=name, sentences=len(sentences),
            links=sum(len(text.links) for text in first.result),
            sentences_a_second=round(len(sentences) / parts[-1].processor),
            first_time_a_second=round(len(sentences) / first.processor),
        )  # fmt: skip
        growth("texts to links", "sentences", sizes, [spent.processor for spent in parts],
               kind=name)  # fmt: skip


def spread(sentences: Sequence[str], n: int) -> Sequence[str]:
    """About `n` of them, from all places: later ones have more names."""
    return sentences[:: max(len(sentences) // n, 1)]


def make_graph(names: Sequence[str]) -> KnowledgeGraph:
    return graph_from_records(Text(f"Q{i}", TextKind.LABEL, name) for i, name in enumerate(names))


def measure_fuzzy(names: Sequence[Name], generator: np.random.Generator) -> None:
    """Build and search time, and how often the name that was misspelled is found."""
    built = once(lambda: FuzzyIndex.build(names))
    index = built.result
    write_line(row="fuzzy index", names=len(names), kept_s=round(built.processor, 1))
    labels = [name.surface for name in names if name.weight > 1 and len(name.surface) >= 6]
    n_typos = min(N_TYPOS, len(labels))
    sample = [labels[i] for i in generator.choice(len(labels), n_typos, replace=False)]
    for n_edits in (1, 2):
        typos = sample
        for _ in range(n_edits):
            typos = [slip(name, generator) for name in typos]
        hits = once(lambda typos=typos: index.search(typos, k=10))
        ranks = [
            next((i for i, m in enumerate(matches) if form_of(m.surface) == form_of(name)), None)
            for matches, name in zip(hits.result, sample, strict=True)
        ]
        recall = {n: sum(r is not None and r < n for r in ranks) / n_typos for n in (1, 10)}
        write_line(
            row="fuzzy search of misspelled labels", edits=n_edits, labels=n_typos,
            ms_a_query=round(1e3 * hits.processor / n_typos, 2),
            **{f"recall_at_{n}": round(share, 3) for n, share in recall.items()},
        )  # fmt: skip


def main() -> None:
    """Print the lines of three topics."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--tagger", help="a row more, with a tagger of `kept link train-tagger`")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    root = os.environ.get("KEPT_DATA")
    if root:
        every = read_names(Path(root))
        sentences = read_sentences(Path(root), options.sentences)
    else:
        all_names = make_names(2 * options.names, generator)
        every = [Name(f"Q{i}", name, 10) for i, name in enumerate(all_names)]
        sentences = make_sentences(all_names, options.sentences, generator)
    distinct = list(dict.fromkeys(name.surface for name in every if len(name.surface) > 1))
    n_names = min(options.names, len(distinct))
    sample = np.sort(generator.choice(len(distinct), n_names, replace=False)).tolist()
    names = [distinct[i] for i in sample]
    print(
        f"{len(names):,} {'aliases of Wikidata' if root else 'made names'}, {len(sentences):,} "
        f"{'sentences of T-REx' if root else 'made sentences'} of "
        f"{sum(map(len, sentences)) / len(sentences):.0f} characters, {options.repeats} repeats"
    )
    compare_mentions(names, sentences, options.peers, options.repeats)
    measure_pipelines(names, sentences, options.repeats, options.tagger)
    measure_fuzzy(every, generator)


if __name__ == "__main__":
    main()
