"""Recognisers: anything with submit, check and cancel."""
