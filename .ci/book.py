"""Checks a book: every page is in it, every link leads somewhere, and the search finds what readers search for."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DIAGRAMS = ("flowchart ", "sequenceDiagram", "stateDiagram-v2")
SEARCHED = ["fsync", "checkpoint", "snapshot", "atom"]
docs, book = Path(sys.argv[1]), Path(sys.argv[2])
wrong = []


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.add(attributes.get("id"))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


# `toc.html` is a frame for browsers without scripts, and the printed page has all others' headings.
pages = {path.resolve(): Page(path) for path in book.rglob("*.html") if path.name not in ("toc.html", "print.html", "404.html")}
diagrams = 0
for source in docs.rglob("*.md"):
    page = (book / source.relative_to(docs)).with_suffix(".html")
    if source.name != "SUMMARY.md" and page.resolve() not in pages:
        wrong.append(f"{source.name} is not in docs/SUMMARY.md")
    for diagram in re.findall(r"^```mermaid\n(.*)", source.read_text(), re.MULTILINE):
        diagrams += 1
        if not diagram.startswith(DIAGRAMS) or 'class="language-mermaid"' not in page.read_text():
            wrong.append(f"{source.name}: a diagram that begins with {diagram}")
checked = 0
for path, page in pages.items():
    for link in page.links:
        url = urlsplit(link)
        if url.scheme not in ("", "file"):
            continue
        to = Path(unquote(url.path))
        to = (path.parent / to).resolve() if url.path else path
        checked += 1
        there = to in pages or to.exists()
        if not there or to in pages and url.fragment and unquote(url.fragment) not in pages[to].anchors:
            wrong.append(f"{path.name}: {link}")

# A string of JavaScript. The index is a tree of letters, whose nodes have the pages in which a word is.
[index] = book.glob("searchindex*.js")
[index] = re.findall(r"JSON\.parse\('(.*)'\)", index.read_text())
index = json.loads(re.sub(r"\\(.)", r"\1", index))
for word in SEARCHED:
    node = index["index"]["index"]["body"]["root"]
    for letter in word:
        node = node.get(letter, {})
    if not node.get("df"):
        wrong.append(f"the search does not find {word}")
print(f"{len(pages)} pages, {checked} links, {diagrams} diagrams, {len(SEARCHED)} searches")
if wrong or checked < 1000:
    sys.exit("\n".join(wrong) or f"{checked} links were found")
