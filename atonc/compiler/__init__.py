"""The compiler: from the bytes of a model to a verified program. A graph is read and made canonical, its operators get
forms, tasks, epochs, addresses and files; `search` builds programs of decisions and keeps the best, `verify` holds the
program against exact arithmetic on the emulator, `compile` is the whole way.

May import: machine.
Rooms, from the ground up: ir, ops, frontends, passes, compare, inputs, plan, schedule, select, lower, place, emit,
price, request, search, verify, compile.
"""
