"""Measurements, as ratios in one run where there is something to measure against.

`make bench` runs them all and prints the table of docs/performance.md. Nothing here is a test: no
figure fails a build.
"""
