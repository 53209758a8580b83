"""A package, so that tests can import what they share: `from tests.tidy.project import ...`."""
