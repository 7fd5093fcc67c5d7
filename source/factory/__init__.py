"""The notebook factory: one source file in, its notebooks out, the same bytes every time.

Read it in this order: `make` says what a source becomes, `reading` turns text into cells, `links` says which
cell a link leads to, `exercises` tells nbgrader about them, `running` executes them, `cache` knows what is up
to date.
"""
