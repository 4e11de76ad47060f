"""Which objects must stay: walking, segment arithmetic, the fence.

Read segments, retained_identifiers, id_set, fence, same_history, safeguards.
"""
