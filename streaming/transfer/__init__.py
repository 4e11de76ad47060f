"""A realm enters as rows of one store and leaves as a file; the file enters and leaves as a realm of another store."""
