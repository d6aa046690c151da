"""`kept demo`: the main job on the shipped world, and its page."""
