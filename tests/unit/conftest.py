"""For all unit tests."""

from hypothesis import settings

# Examples are judged by what they show, not by how busy the machine is.
settings.register_profile("transcriber", deadline=None, print_blob=True)
settings.load_profile("transcriber")
