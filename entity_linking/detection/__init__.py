"""Mentions with probabilities: from names and a tagger together, to links that do not overlap."""

from entity_linking.detection.end_to_end import EndToEnd
from entity_linking.detection.found import DetectedText, Detector, Span, SpanTagger, Tagged
from entity_linking.detection.union import NamesAndTagger

__all__ = ["DetectedText", "Detector", "EndToEnd", "NamesAndTagger", "Span", "SpanTagger", "Tagged"]
