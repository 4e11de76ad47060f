"""Requests of Nessie's REST API v2 enter; catalog commits, reference moves and answers in its shapes leave."""
