"""Lines over two axes as one SVG file, with nothing but the standard library.

    Plot("title", "recall@10", "QPS", log_y=True).line("name", [(x, y), …]).save(path)

Colours are told apart with common colour blindness, markers differ too, and the page's own
light or dark scheme is not asked: the picture brings its white ground.
"""
import math
from xml.sax.saxutils import escape

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
WIDTH, HEIGHT = 900, 560
LEFT, TOP, RIGHT, BOTTOM = 80, 46, 270, 60


class Plot:
    def __init__(self, title, x_label, y_label, log_x=False, log_y=False):
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.log, self.lines = (log_x, log_y), []

    def line(self, name, points):
        points = [(float(x), float(y)) for x, y in points
                  if (not self.log[0] or x > 0) and (not self.log[1] or y > 0)]
        if points:
            self.lines.append((name, points))
        return self

    def save(self, path):
        with open(path, "w") as f:
            f.write(self.text())

    def text(self):
        xs = [p[0] for _, line in self.lines for p in line] or [1.0]
        ys = [p[1] for _, line in self.lines for p in line] or [1.0]
        x_axis, y_axis = Axis(xs, self.log[0]), Axis(ys, self.log[1])
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

        def x_of(v):
            return LEFT + x_axis.share(v) * (right - LEFT)

        def y_of(v):
            return bottom - y_axis.share(v) * (bottom - TOP)

        out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
               'font-family="sans-serif" font-size="12">' % (WIDTH, HEIGHT, WIDTH, HEIGHT),
               '<rect width="100%" height="100%" fill="#fff"/>',
               text(LEFT, 24, self.title, size=15),
               text((LEFT + right) / 2, HEIGHT - 16, self.x_label, "middle"),
               '<text x="18" y="%.1f" text-anchor="middle" transform="rotate(-90 18 %.1f)">%s</text>'
               % ((TOP + bottom) / 2, (TOP + bottom) / 2, escape(self.y_label))]
        for v in x_axis.ticks():
            out.append(stroke(x_of(v), TOP, x_of(v), bottom))
            out.append(text(x_of(v), bottom + 18, spelled(v), "middle"))
        for v in y_axis.ticks():
            out.append(stroke(LEFT, y_of(v), right, y_of(v)))
            out.append(text(LEFT - 8, y_of(v) + 4, spelled(v), "end"))
        for i, (name, points) in enumerate(self.lines):
            colour, dashed = COLOURS[i % len(COLOURS)], i // len(COLOURS) % 2
            path = " ".join("%.1f,%.1f" % (x_of(x), y_of(y)) for x, y in points)
            out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>'
                       % (path, colour, ' stroke-dasharray="6 4"' if dashed else ""))
            out += [marker(i, x_of(x), y_of(y), colour) for x, y in points]
            y = TOP + 12 + 20 * i
            out += [marker(i, right + 22, y - 4, colour), text(right + 34, y, name)]
        return "\n".join(out + ["</svg>", ""])


class Axis:
    def __init__(self, values, log):
        self.log = log
        low, high = min(values), max(values)
        if log:
            low, high = math.log10(low), math.log10(high)
        room = (high - low) * 0.04 or abs(low) * 0.1 or 1.0
        self.low, self.high = low - room, high + room

    def share(self, v):
        return ((math.log10(v) if self.log else v) - self.low) / (self.high - self.low)

    def ticks(self):
        if self.log:
            out = [m * 10.0 ** e for e in range(math.floor(self.low), math.ceil(self.high) + 1)
                   for m in ((1, 2, 5) if self.high - self.low < 4 else (1,))]
            return [v for v in out if self.low <= math.log10(v) <= self.high]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (m * step) <= 8)
        first = math.ceil(self.low / step)
        return [round(k * step, 12) for k in range(first, math.floor(self.high / step) + 1)]


def spelled(v):
    return "%d" % v if v == int(v) and abs(v) < 1e6 else "%g" % v


def text(x, y, s, anchor="start", size=12):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">%s</text>' % (x, y, anchor, size, escape(s))


def stroke(x0, y0, x1, y1):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>' % (x0, y0, x1, y1)


def marker(i, x, y, colour):
    if i % 3 == 0:
        return '<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (x, y, colour)
    if i % 3 == 1:
        return '<rect x="%.1f" y="%.1f" width="7" height="7" fill="%s"/>' % (x - 3.5, y - 3.5, colour)
    return '<path d="M%.1f %.1f l4.5 8 h-9 z" fill="%s"/>' % (x, y - 5, colour)
