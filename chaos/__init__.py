"""Seeded, bounded trouble for a whole service on loopback, and the evidence of what came of it.

`python -m chaos --seed N --minutes M`. `plan` says what is to happen, `world` is the service and
what stands around it, `senders`, `owner` and `trouble` carry the plan out, `ending` writes down
what is there at the end, and `checker` judges that and nothing else.
"""
