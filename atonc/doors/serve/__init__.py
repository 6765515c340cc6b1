"""`atonc serve`: the compiler as a web application on this machine, with a queue and a history.

`command` starts it, `app` answers requests, `guard` says whose; `jobs` runs the queue and remembers it, each job in a
process that does the work (`worker`) within `limits`; `form` says which options there are; `api` is the list of what
can be asked over HTTP, which gives the routes and their description. The page is in `assets`: plain scripts, no build
step.
"""
