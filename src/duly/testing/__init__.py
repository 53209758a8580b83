"""Doubles that ship with Duly, written from the contracts, for tests of what stands around them."""
