"""Parts of the process around a node (server.py): what it asks of the machine before there is a node, what it tells the
service manager, and where its logs are written."""
