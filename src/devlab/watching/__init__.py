"""What a program did with the devices: copies, launches, waits, time and memory."""
