"""GLiNER finds names by types in words; kept links those that its graph knows."""

import sys

from kept import atlas, link

folder = sys.argv[1]  # a GLiNER's, for example that of `GLiNER.from_pretrained(NAME)`
text = "The Seine flows through Paris."
linked = link(text, atlas.graph(), tagger=f"gliner:{folder}=city,river")
print([(each.text, each.label) for each in linked.links])
