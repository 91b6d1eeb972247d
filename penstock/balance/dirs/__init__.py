"""Plans which replicas go to which log dirs of one broker. Pure; see dir_planner.py."""
