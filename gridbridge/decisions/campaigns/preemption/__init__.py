"""Which best-effort tasks end for a local request that lacks what they hold.

A local job that is started displaces tasks by itself (queue_conf(5), subordinate_list). One that
lacks a consumable of theirs is never started.
"""
