"""The reasoning of hang logs: accounts of each barrier, and the causes that they show.

One reasoning, two readers. A reader makes a `LogTrace`: the steps of each role in order, with the barriers
that each concerns, and the counts that the log prints. `template/` reads by a user's templates; `of_graph.py`
takes what the built-in wordings gave. A `Ledger` keeps the accounts of a trace: arrivals, phases and bytes of
each barrier, and what each blocked wait lacks. The rules ask the ledger only.

`rules_accounts.py` gives the causes of these rules to the wait-for graph of the built-in wordings. The other
rules_*.py still ask that graph: each moves here when its accounts answer the same logs as well.
"""
