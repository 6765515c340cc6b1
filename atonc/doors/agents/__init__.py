"""`atonc mcp`: the verbs as tools of an agent, over the Model Context Protocol on standard input and output.

`command` starts it, `tools` says which verbs there are and makes a command line of a call, `sandbox` keeps its paths in
one folder, `server` speaks the protocol; each call runs the command line in a process of its own (`worker`), within the
limits of `atonc serve`. What an agent gets is the document that the verb prints with --json.
"""
