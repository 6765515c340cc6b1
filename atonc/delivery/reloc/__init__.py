"""Relocatable images: networks that an application loads at run time, in the layout of ST's N6_reloc package."""
