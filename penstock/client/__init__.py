"""Producer, Consumer and Admin over gRPC, plain and async. Users import them from `penstock`.

Faces: producer, consumer, admin and their async twins. Cores without I/O: accumulator, dispatcher, positions,
fetch_session_view, metadata_cache. Drivers on one event loop: cluster, sender, fetcher. Edges: channel (gRPC) and
background (the thread of plain clients), which the environment hands in.
"""
