"""`kept check layers`: what each layer of an encoder holds of a sentence's grammar.

The work is in `kept.apps.cli.check.layers_run`, imported when the command runs.
"""

from __future__ import annotations

from kept.apps.cli.check.layers_options import LayersOptions
from kept.apps.cli.declared import takes


@takes(LayersOptions)
def layers(options: LayersOptions) -> None:
    """Fit a linear probe on the states of words after every layer, and compare encoders by it.

    Printed are accuracies with intervals over sentences for parts of speech, relations to heads and
    distances of heads. As a control, the probe also learns random labels of word forms, and there
    is a baseline that knows the form alone.

    Example: kept check layers minilm runs/colake --kg kg/ --train train.conllu --test dev.conllu -o
    layers/
    """
    from kept.apps.cli.check import layers_run
    from kept.plotting import require_plotting

    require_plotting()
    layers_run.run(options)
