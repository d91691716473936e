"""The tabs Lanes, Jobs, Schedule and Failed, and the HTTP API, inside Flower's process (rules U3, U4).

`setup.install` puts them into Flower; `handlers` says who may see and do what; `desk` asks the database beside the event
loop; `reads` lists what pages and API show; `pages` and `api` are the two surfaces.
"""
