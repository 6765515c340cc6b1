"""The way to a board: files of a network and of its front end, pool files and linker fragments, firmware, relocatable
images, folders for other projects, delegates for ExecuTorch, the wire protocol, probes, deployment into an application;
and trials of all of it on the virtual board or on a real one, with recordings of boards.

May import: machine, compiler, insight.
Rooms, from the ground up: boards, firmware, generate, front_end, reloc, application, layouts, wire, probes, deploy,
trials, executorch, yolo, doctor, recordings, trying, texts.
"""
