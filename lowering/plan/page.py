"""A plan as one HTML page: a block for each part, as wide as what it moves, its reasons below.

Made from `Plan.to_dict()` alone; start reading at `page`.
"""
from __future__ import annotations

import html
import linecache
import math
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } code, pre { font: 13px/1.45 ui-monospace, monospace; }
.part { border: 1px solid var(--line); border-left-width: 6px; border-radius: 6px;
        margin: .6rem 0; padding: .5rem .8rem; }
.kernel { border-left-color: #2a9d8f; } .iree { border-left-color: #8d99ae; }
.host { border-left-color: #e76f51; } .python { border-left-color: #9b5de5; }
.bar { height: 6px; border-radius: 3px; background: #2a9d8f88; margin: .2rem 0 .4rem; }
.name { font-weight: 600; } .at { float: right; opacity: .75; }
.why { background: var(--soft); border-radius: 4px; padding: .2rem .5rem; margin: .3rem 0; }
pre { background: var(--soft); border-radius: 4px; padding: .3rem .5rem; overflow-x: auto;
      margin: .3rem 0; }
"""
_KINDS = {"iree": "iree", "host loop": "host", "host branch": "host", "callback": "python"}
MOST_LINES = 6  # of the user's source in a block


def page(plan: dict[str, Any]) -> str:
    """The page."""
    most = max([1, *map(_bytes, plan["regions"])])
    why = plan["not_one_kernel"]
    facts = [f"A call runs {plan['runs']}; it is estimated at {_number(plan['work'])} element "
             f"operations.", f"Takes {_list(plan['inputs'])}; gives {_list(plan['outputs'])}."]
    if why is not None and len(plan["regions"]) > 1:
        facts.append(f"Not one kernel: {html.escape(why['text'])}.")
    title = html.escape(f"{plan['name']} for {plan['target']}")
    return (f"<!doctype html><html lang=en><meta charset=utf-8>"
            f"<meta name=viewport content='width=device-width'><title>{title}</title>"
            f"<style>{_STYLE}</style><h1>{title}</h1>"
            + "".join(f"<p>{f}</p>" for f in facts)
            + "".join(_part(r, str(i), most) for i, r in enumerate(plan["regions"], 1))
            + "</html>\n")


def _part(r: dict[str, Any], number: str, most: int) -> str:
    name = f"{number} {html.escape(r['what'])}"
    steps = f"{_number(r['steps'])} steps" if r.get("steps") is not None else (
        "the data decides when it ends" if "steps" in r else "")
    what = ", ".join(k if n == 1 else f"{n} {k}" for k, n in r["operations"].items())
    lines = [f"<span class=at>{html.escape(', '.join(map(_short, r['at'][:2])))}</span>"
             f"<span class=name>{name}</span>",
             f"<div class=bar style='width:{_width(_bytes(r), most):.0f}%'></div>"
             if r["bytes"] else "",
             f"<div><code>{html.escape(what)}</code>{', ' + steps if steps else ''}</div>"]
    if r["reads"] or r["writes"]:
        groups = f", {r['workgroups']} workgroups" if r["workgroups"] > 1 else ""
        lines.append(f"<div>reads <code>{_list(r['reads'])}</code>, writes "
                     f"<code>{_list(r['writes'])}</code>{groups}</div>")
    lines += [f"<div class=why>because {html.escape(w['text'])}"
              + (f" ({html.escape(_short(w['at']))})" if w["at"] else "") + "</div>"
              for w in r["because"]]
    source = [_source(at) for at in r["at"][:MOST_LINES]]
    if any(source):
        lines.append(f"<pre>{html.escape(chr(10).join(filter(None, source)))}</pre>")
    inner = "".join(_part(q, f"{number}.{i}", most) for i, q in enumerate(r["inner"], 1))
    kind = _KINDS.get(r["family"], "kernel")
    return f"<div class='part {kind}'>{''.join(lines)}{inner}</div>"


def _bytes(r: dict[str, Any]) -> int:
    return max([r["bytes"] or 0, *map(_bytes, r["inner"])])


def _width(n: int, most: int) -> float:
    """Per cent of the line, by the logarithm: parts differ by thousands."""
    return 100 * math.log2(n + 2) / math.log2(most + 2)


def _number(n: Any) -> str:
    return f"{n:,}" if isinstance(n, int) else html.escape(str(n))


def _list(types: list[str]) -> str:
    shown = ", ".join(types[:6]) + (f" and {len(types) - 6} more" if len(types) > 6 else "")
    return html.escape(shown or "nothing")


def _short(at: str) -> str:
    return at.replace("\\", "/").rpartition("/")[2]


def _source(at: str) -> str:
    file, _, line = at.rpartition(":")
    text = linecache.getline(file, int(line)).rstrip() if file else ""
    return f"{line:>5}  {text}" if text.strip() else ""
