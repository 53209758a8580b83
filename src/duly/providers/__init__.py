"""Providers: what each receiver of messages promises, and pure functions that speak its language."""
