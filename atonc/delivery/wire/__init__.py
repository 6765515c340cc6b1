"""The protocol of ST's validation firmware: protocol-buffer messages in small packets over a serial line."""
