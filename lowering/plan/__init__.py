"""Which way everything goes, and why: what `calque explain` and CALQUE_LOG=plan print.

refusal.py    why a way was not taken: an equation and a fact
switches.py   parts that can be left out
record.py     what emission did: a row for each kernel, each loop and branch from the host, and each
              stretch that is IREE's
show.py       a plan as text and as JSON; page.py as a page to look at
"""
