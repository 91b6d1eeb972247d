"""Consensus in KRaft's shape: a core without I/O (`RaftCore`) and the one driver around it (`RaftDriver`).

Read ready.py for the order in which effects are performed, quorum_state.py for the table of states, then core.py.
"""
