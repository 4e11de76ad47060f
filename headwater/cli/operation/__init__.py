"""Commands of an operator: server, stores, realms, settings, local servers, the demo."""
