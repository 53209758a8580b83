"""Benchmarks: what a delivery costs, beside what it would cost in a loop written by hand.

`python -m bench --help` lists the parts. Everything runs on loopback, on throw-away databases with their
durable defaults, and is removed afterwards. Absolute figures belong to a machine; the ratios are of one run.
"""
