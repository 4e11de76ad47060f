"""HTTP requests enter; operations are called, and JSON, events or problems leave."""
