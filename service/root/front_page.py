"""The page at `/`: links to the feed, its description and its state."""

PAGE_STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; color: #123 }
code, pre { background: #eef3f6; border-radius: 4px; padding: .1rem .3rem }
pre { padding: .8rem; overflow-x: auto }
td { padding: .15rem 1rem .15rem 0; vertical-align: top }"""

FRONT_PAGE = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Headwater</title>
<style>
{PAGE_STYLE}
</style></head>
<body>
<h1>Headwater</h1>
<p>The change feed that begins at your catalog's HEAD: a change is committed if and only if it is in the log, and the log is
the feed.</p>
<table>
<tr><td><a href="/feed/v1/default/pointers">/feed/v1/default/pointers</a></td><td>branches, tags and records, with their heads</td></tr>
<tr><td><a href="/feed/v1/default/changes?pointer=catalogs">/feed/v1/default/changes?pointer=…</a></td><td>a page of Changes, oldest first</td></tr>
<tr><td>/feed/v1/default/stream?pointer=…</td><td>the same as server-sent events</td></tr>
<tr><td><a href="/feed/v1/default/snapshot?pointer=catalogs">/feed/v1/default/snapshot?pointer=…</a></td><td>the state at one entry</td></tr>
<tr><td>/feed/v1/default/subscriptions/NAME</td><td>positions kept on the server</td></tr>
<tr><td>POST /feed/v1/default/commit</td><td>commit operations to a branch</td></tr>
<tr><td><a href="/iceberg/v1/config?warehouse=lake">/iceberg</a></td><td>the Iceberg REST catalog</td></tr>
<tr><td><a href="/api/v2/config">/api/v2</a></td><td>Nessie's REST API</td></tr>
<tr><td><a href="/manage/v1/default/catalogs">/manage/v1/default</a></td><td>catalogs, references, identities, rights and policies</td></tr>
<tr><td><a href="/docs">/docs</a></td><td>every route, for reading</td></tr>
<tr><td><a href="/openapi.json">/openapi.json</a></td><td>every route, parameter and response, for programs</td></tr>
<tr><td><a href="/readyz">/readyz</a>, <a href="/livez">/livez</a>, <a href="/metrics">/metrics</a></td><td>how it does</td></tr>
</table>
<pre>curl 'localhost:8181/feed/v1/default/changes?pointer=cat/1/heads/main&amp;after=earliest&amp;wait=30'</pre>
</body></html>
"""  # noqa: E501 - one row of the table a line
