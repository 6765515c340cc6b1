"""The parts of `<name>_c_info.json`."""
