"""Benchmarks: what a delivery costs, beside what it would cost in a loop written by hand.

`python -m bench --help` lists the parts; `docs/reference/performance.md` says what the figures mean.
Everything runs on loopback, on throw-away databases with their durable defaults, and is removed
afterwards. Absolute figures belong to a machine; the ratios are of one run.

Beside it stand smaller programs, each for one room alone: `store` and `store_sqlite`, `http_clients`,
`intake`, `doctor`. Each says in its first line what it measures.
"""
