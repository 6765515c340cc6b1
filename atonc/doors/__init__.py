"""The doors by which users come in: Python, Model Explorer, the verbs, the web service, the command line, agents. They
take wishes apart, call the wings below and show what came back; nothing is computed here, and nobody imports a door.

May import: machine, compiler, insight, delivery.
Rooms, from the ground up: python, explorer, verbs, serve, cli, agents.
"""
