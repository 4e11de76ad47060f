"""The storage engine: rows, typed objects, the commit log, commits and realms. Backends are thin; all semantics are here.

Read rows, backend (the SPI), limits, clock; then objects/, ids/, log/, index/ and commit/, which carry one commit; then
store, which opens a database, handover/ and reading/. coordination/, realms/, records/, observability/ and
backends/ can be read in any order.
"""
