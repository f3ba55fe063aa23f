"""Online hard delete: uncommitted bytes are deleted soon after their last reference is gone.

The ledger identifies these bytes: an address is condemned in the transaction removing its last
staged row, and no later reference to it is possible. The *reaper* deletes condemned objects after a
safety margin and records the deletion in their rows.
"""
