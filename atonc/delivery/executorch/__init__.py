"""ExecuTorch: modules quantised by PT2E, parts of them as delegates that hold a relocatable image, and their runtime on
this machine with the emulator below it (docs/executorch.md). Everything here imports executorch; `atonc.executorch`
loads it when it is asked for."""
