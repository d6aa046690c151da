"""Sentences a processor second by row, on text that no part has read before."""

from __future__ import annotations

import time

from entity_linking.dense.context import RememberingEncoder
from entity_linking.parts import SentenceEncoder
from experiments.entity_linking.end_to_end.rows import EndToEndTrial
from experiments.entity_linking.inputs.texts import uniform_value
from experiments.entity_linking.inputs.world import divided
from experiments.entity_linking.stages import LinkingStages
from kept.linking.sentences import HostSentenceEncoder
from kept.linking.stream import relaxed_gc

N_SENTENCES = 400
"""For each row, of its own: candidates are remembered by their text."""
SUBSET = "30 candidates"
TIMED = (
    "names + prior", "trained, likeliest", f"trained, likeliest, {SUBSET}",
    "coherence, likeliest", "context, likeliest",
    "encoder everywhere, likeliest", "encoder, likeliest", f"encoder, likeliest, {SUBSET}",
    "cross-encoder everywhere, likeliest", "cross-encoder, likeliest",
    f"cross-encoder, likeliest, {SUBSET}",
    "trained, tagger, likeliest", "encoder and coherence, tagger, likeliest",
)  # fmt: skip


class _Uncached(LinkingStages):
    """Without the vectors that the run folder keeps, with those of a linker's own last texts."""

    def encoder(self, pieces: int) -> SentenceEncoder:
        host = HostSentenceEncoder(self.study.dense.host, max_length=pieces)
        return RememberingEncoder(host)


class _Subset(EndToEndTrial):
    """With as many candidates as the library proposes unless asked for more."""

    @property
    def names(self) -> dict[str, int]:
        return {}


def sentences_a_second(trial: EndToEndTrial) -> dict[str, float]:
    """By row; each reads other sentences of T-REx, after as many that warm up what is remembered.

    What is loaded once (indexes, weights) is not counted; cycles of objects are looked for as
    seldom as `kept link` does.
    """
    kept = trial.stages
    stages = _Uncached(kept.root, kept.study, kept.folder, kept.announce)
    trial, of_subset = EndToEndTrial(stages, trial.plan), _Subset(stages, trial.plan)
    counted = divided(kept.root, kept.study)[2]["counts"]
    texts = sorted(
        {each.linked.text for each in counted if each.source.startswith("T-REx")},
        key=lambda text: uniform_value(kept.study.seed, f"speed {text}"),
    )
    speeds = {}
    for position, name in enumerate(TIMED):
        plain = name.removesuffix(f", {SUBSET}")
        row, decision, _ = trial.chosen(plain)
        linker = (trial if name == plain else of_subset).linker(row, decision)
        sentences = texts[2 * position * N_SENTENCES : 2 * (position + 1) * N_SENTENCES]
        with relaxed_gc():
            linker.link(sentences[:N_SENTENCES])
            timed = sentences[N_SENTENCES:]
            start = time.process_time()
            linker.link(timed)
            speeds[name] = len(timed) / max(time.process_time() - start, 1e-9)
    return speeds
