"""The ledger's stores: one port, two databases, SQL by hand.

`loader` reads the named statements of a dialect, `migrate` makes and checks the schema, `bisect` keeps
one bad row from costing the others their outcome; `sqlite` and `postgres` implement `ports.Store` and
`ports.Views`. The drivers are imported only where a store is opened.
"""
