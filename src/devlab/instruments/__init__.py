"""Instruments: see what a program did, on every device alike."""
