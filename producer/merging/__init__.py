"""Two lines of commits enter; what both share, what one changed since, and the commits that bring it over leave."""
