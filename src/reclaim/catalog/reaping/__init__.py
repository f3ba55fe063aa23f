"""Online hard delete: bytes that were never committed go soon after nothing refers to them.

The ledger says which they are: an address is condemned in the transaction in which its last
staged row goes, and nothing can refer to it from then on. The *reaper* deletes condemned objects
once a margin is over, and notes that in their rows.
"""
