"""The machine: the chip as it is (registers, units, boards), what it does (the emulator), what that costs, the C code
that runs on it and the texts of generated files; and in `base` what every room takes for granted: errors, files,
progress, declared options. It knows no models and no compiler, so the emulator is a witness whom the compiler cannot
teach its own mistakes.

May import: nothing.
Rooms, from the ground up: base, boards, runtime, templates, hw, emu, cost.
"""
