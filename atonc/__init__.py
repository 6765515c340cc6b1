"""atonc: open compiler, emulator and deployment toolchain for the STM32N6 Neural-ART NPU."""

__version__ = "0.1.0"
