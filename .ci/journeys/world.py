"""Files of a private world in the working directory: facts, names, and questions about people.

What a person works as stands in the graph alone; no test person is in a training text.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kept.lab.demo.private.world import company

N_TRAIN, N_TEST = 960, 80


def main() -> None:
    staff = company(0, n_train=N_TRAIN, n_test=N_TEST, n_new=1)
    graph = staff.world.graph
    facts, labels = [], []
    for head, relation, tail in graph.triples.tolist():
        names = graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)
        facts.append("\t".join(names))
    for row in range(graph.n_entities):
        labels.append(f"{graph.entities.name(row)}\t{graph.label(row)}")
    Path("facts.tsv").write_text("\n".join(facts) + "\n", encoding="utf-8")
    Path("labels.tsv").write_text("\n".join(labels) + "\n", encoding="utf-8")
    for name, examples in (("train", staff.world.train), ("dev", staff.world.test)):
        lines = []
        for example in examples:
            (target,) = example.targets
            person = example.linked.text[target.start : target.end]
            lines.append(f"{example.labels[0]}\t{person} works here.")
        Path(f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first = staff.world.test[0]
    person = first.linked.text[first.targets[0].start : first.targets[0].end]
    Path("person.txt").write_text(person, encoding="utf-8")
    sys.stdout.write(f"{graph}; {person} is a {first.labels[0]}\n")


if __name__ == "__main__":
    main()
