#!/usr/bin/env python3
"""Writes the demo's PDF files from pdf/*.txt: python3 make_pdf.py (in any folder).

Source: '# ' and '## ' are headings, '@page' begins a page, every other line is a
paragraph. Output: PDF 1.4, Helvetica in WinAnsi encoding, uncompressed, the same bytes
every time. Needs nothing but Python."""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = {"archives.txt": "documents/fr/archives.pdf", "kreditakten.txt": "documents/de/kreditakten.pdf"}
STYLE = {1: (20, 30), 2: (14, 24), 0: (10, 14)}  # size, space before a block


def wrap(text, size):
    """Lines that fit into 420 points, at half a size a letter on average."""
    lines, line = [], ""
    for word in text.split():
        if line and (len(line) + 1 + len(word)) * size * 0.5 > 420:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return lines + [line]


def escape(text):
    out = b""
    for byte in text.encode("cp1252"):
        out += b"\\" + bytes([byte]) if byte in b"()\\" else bytes([byte]) if byte < 128 else b"\\%03o" % byte
    return out


def pages_of(source):
    pages, y = [[]], 790
    for line in source.splitlines():
        if line == "@page":
            if pages[-1] and pages[-1][-1][0] == 0:  # a title alone shares its page
                pages.append([])
                y = 790
            continue
        level = len(line) - len(line.lstrip("#")) if line.startswith("#") else 0
        size, before = STYLE[level]
        y -= before
        for part in wrap(line.lstrip("# "), size):
            y -= size * 1.25
            pages[-1].append((level, size, y, part))
    return pages


def pdf(source):
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>",
               3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"}
    kids = []
    for number, page in enumerate(pages_of(source)):
        content = b"BT\n" + b"".join(
            b"/F %d Tf 1 0 0 1 72 %.1f Tm (%s) Tj\n" % (size, y, escape(text)) for _, size, y, text in page) + b"ET"
        at = 4 + 2 * number
        kids.append(b"%d 0 R" % at)
        objects[at] = (b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R"
                       b"/Resources<</Font<</F 3 0 R>>>>>>" % (at + 1))
        objects[at + 1] = b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
    objects[2] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (b" ".join(kids), len(kids))
    out, offsets = b"%PDF-1.4\n", {}
    for number in sorted(objects):
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    xref = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offsets[n] for n in sorted(objects))
    return out + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, xref)


for name, target in TARGETS.items():
    (HERE / target).write_bytes(pdf((HERE / "pdf" / name).read_text(encoding="utf-8")))
