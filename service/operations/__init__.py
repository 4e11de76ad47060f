"""Requests that know no transport enter; what every door answers with leaves."""
