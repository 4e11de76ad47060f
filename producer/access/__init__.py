"""Principals, roles, grants and policies enter as records of a realm; who may do what leaves."""
