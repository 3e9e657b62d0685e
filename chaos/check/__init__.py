"""The invariants, one module a family. Each reads a `Run` and writes what it found to a `Ledger`.

Nothing here imports `worker` or the rig: a misunderstanding there shall not be repeated here.
"""
