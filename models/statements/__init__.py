"""Every statement that writes, one function each. Only the writers of `models` may import this package.

`postgres` and `sqlite` hold the hot transactions (fold, claim, settle, refresh, renew) in each database's own way; one
contract suite runs against both. `sqlite_lanes` holds what several of SQLite's share, `running` and `queueing` the
statements that both spell alike.
"""
