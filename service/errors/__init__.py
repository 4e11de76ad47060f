"""Errors as callers read them: problem+json, in the language that they asked for. Read problems, translations, languages."""
