"""The local recogniser: engine processes that turn claimed operations into segments."""
