"""A folder enters; writers that commit, a follower that shows it, a kill -9 in the middle, and the comparison of both leave."""
