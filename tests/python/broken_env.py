"""A module that cannot be imported, and for none of the usual reasons."""

raise RuntimeError("made for another simulator")
