"""Requests enter; operations and feeds leave: the door."""
