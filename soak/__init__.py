"""The soak: Duly's promise, kept under fire for as long as you like.

Two workers and a tick run as processes of their own, reminders keep coming in and some are cancelled, and
meanwhile programs are killed, the database crashes, and the receivers accept without answering. In the end
the faults stop, everything drains, and the receivers' own journal is held against the ledger: nothing lost,
nothing twice.

    python -m soak --minutes 30 --seed 1 --kills 300

What is read of Duly is what anybody can read: its commands, their JSON and its views. What the receivers
saw they write themselves, before they answer, in a process that nobody kills.

    stub            the receivers: what they promise, and how they misbehave
    journal         what they saw, one line each
    installation    configuration and commands
    programs        processes that are kept running, and killed
    submitting      reminders that come in, come in again, and are cancelled
    faults          what goes wrong, and when: drawn from the seed before anything starts
    databases       where the ledger is, and how it crashes
    driver          the run
    ledger          what Duly says in the end
    verdict         where the two disagree
    report          the table

`docs/reference/soak.md` says what the figures mean.
"""
