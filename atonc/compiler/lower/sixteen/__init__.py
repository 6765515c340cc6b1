"""Operators on codes of 16 bits (TFLite 16x8, QDQ INT16), with units that multiply bytes: x = 256 * high + low."""
