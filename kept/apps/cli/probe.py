"""`kept probe`: which facts of a graph does a model recall?

The work is in `kept.apps.cli.probe_run`, imported when the command runs: `kept --help` loads no
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kept.apps.cli.declared import Declared

if TYPE_CHECKING:
    from kept.apps.cli.probe_options import ProbeOptions


def probe(options: ProbeOptions) -> Any:
    """Probe what a model knows: rank its answers to cloze questions from a collection or a graph.

    Printed are P@1 with the number of questions that were scored and skipped, an interval over
    facts, the majority baseline, and scores by the number of facts about the subject. There are two
    rankings: among words of one piece, and among all objects of the relation. An audit of leaks
    follows.

    Example: kept probe ./my-bert --kg kg/ --relations P19,P36
    """
    from kept.apps.cli import probe_run

    return probe_run.run(options)


probe_command = Declared("kept.apps.cli.probe_options:ProbeOptions", probe, arguments=["model"])
