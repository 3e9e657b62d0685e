"""Media: what a recording is, and how it becomes the one audio form that recognisers take.

`container` opens a file without trusting it, `probe` says what it is, `normalise` turns it into
16 kHz mono FLAC, `sandbox` runs either in a process that may die, `source` answers the intake.
"""
