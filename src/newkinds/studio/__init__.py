"""The studio: a page in the browser, on this machine, that edits a run.

What it does to a run is `newkinds.editing`'s; here are the server, what it answers, and who may ask. Starlette and
uvicorn (the extra `studio`) are imported in this room only, and not before it is asked to serve.
"""
