"""Deterministic simulation: the production flows over the real SQLite store, in worlds that try to break them.

A *world* is drawn from one seed: workers, receivers, people, and faults. Its coroutines are the flows of
`duly.flows`, unchanged. They await only ports, and here every port call hands over to a *scheduler*, which
decides who goes on, moves the clock, loses replies, kills workers, and puts an old backup back. There is no
thread, no event loop and no clock of the machine, so a seed is played the same way every time.

    plan          what a seed draws                       chance      the streams that it is drawn from
    world         one world, from its start to its end    workers     the flows in loops, as in `duly work`
    scheduler     who goes on, when, with which fate      turns       what a coroutine yields
    ports         the store, claims, content, policies    network     transports, and what is under way
    receivers     what receivers truly accepted           providers   the adapters in front of them
    messages      who hears what leaves and arrives       post        what receivers report by themselves
    people        the application and the operator        restoring   an old backup comes back
    ledger        what was committed, seen from outside   truth       what really happened beside it
    checkers      the promise, as code that can say no    judge       who asks all of them
    history       what happened, told when it failed      report      many seeds
    shrink        the smallest world that still fails

After every commit the *checkers* compare the ledger with what was there before, and with the truth: what
receivers really accepted. Then faults stop, and everything must come to its end. `duly simulate` runs it.

In the manner of FoundationDB (https://apple.github.io/foundationdb/testing.html) and TigerBeetle
(https://docs.tigerbeetle.com/concepts/safety/).
"""
