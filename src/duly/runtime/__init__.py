"""What makes the flows run: configuration, bootstrap, loops, supervision. The only rooms with a clock and dice.

`config` reads what the operator wrote. Everything below this package takes times, chance and adapters as
arguments; everything above it (the command line, the API) starts it and shows what came of it.
"""
