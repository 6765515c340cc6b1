"""What runs cost, ours or ST's: cycles by two models, the band of a prediction, the machine that it is for."""
