"""Which objects must stay: walks, segment arithmetic and the fence. Does not need Spark.

Read segments, retained_identifiers, id_set, fence, same_history, safeguards.
"""
