"""A stress of threads, iterators, workers and exits, for the native core built with sanitizers.

``make sanitize`` runs :mod:`run`, which builds the package with each sanitizer and runs each
scenario of :mod:`scenarios` and :mod:`exits` with it in a process of its own.
"""
