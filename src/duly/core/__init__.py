"""The pure rules of Duly: what may happen to a delivery, and when. Standard library only.

No clock, no dice, no input or output: times, jitter and ids are arguments. Everything here can be
tested with values alone, and everything that decides lives here.
"""
