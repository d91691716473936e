"""Reads of the dashboard and the HTTP API: pages of a list, counts with a ceiling, and what one look at a lane or job shows.

They stay quick with 10,000 lanes and 1,000,000 finished jobs: no read looks at all finished jobs, none counts beyond
`paging.CEILING`.
"""
