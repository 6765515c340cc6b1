"""From operators to unit chains: one recipe per operator family, with a reason for everything that stays on the CPU."""
