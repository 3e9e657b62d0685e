"""The steps that take a recording from `uploaded` to `done`, and the runner that drives them."""
