"""Epochs before they have addresses: unit chains wired through the stream switch, engines that walk named buffers."""
