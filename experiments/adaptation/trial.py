"""`python -m experiments adaptation CONFIG -o RUN`: rows of one task that differ in its training.

Needs KEPT_DATA; what is stored in RUN is not run again.
"""

from __future__ import annotations

from pathlib import Path

from experiments.stages import StagedStudy, main
from kg_loaders import graph_from_records


def empty_graph(study: StagedStudy, root: Path, folder: Path) -> None:
    """Write a graph of nothing: the host alone is trained."""
    if not (folder / "kg").exists():
        graph_from_records([]).save(folder / "kg")


if __name__ == "__main__":
    main("experiments adaptation", empty_graph)
