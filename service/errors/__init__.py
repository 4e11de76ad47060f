"""Errors as callers read them: problem+json, in the language that the request asks for.

Read problems, translations, languages.
"""
