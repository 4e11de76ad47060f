"""The contract with the outside: error tree, records and encodings that every other layer speaks; imports nothing of ours."""
