"""Linking of running text: how mentions are found, when links are accepted, when NIL is said."""
