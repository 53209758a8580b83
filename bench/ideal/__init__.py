"""The ideal loop: what a delivery costs when nothing but this one case has to work.

It writes the same rows and bytes as `duly work`, under the same fences and with the same locks, in batches,
and is otherwise as plain as it can be: webhooks only, one kind of body, first attempts only, an answer that
is not 200 ends the run. It measures what the machine, the database and libcurl leave to be had.
"""
