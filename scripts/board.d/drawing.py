"""Draws what the queries of a board give, panel by panel, where the board has them: one SVG without anything from elsewhere."""
import math
from html import escape

from grafana import legend

COLUMN, UNIT, MARGIN = 48, 27, 8  # pixels of the grid's units
PALETTE = ["#2f7ed8", "#e8871e", "#4c9f38", "#c0392b", "#8e5ea2", "#16a2b8", "#8c6d31", "#d6569b", "#6b7280", "#b8a20b"]
COLORS = {"green": "#3b9c4a", "orange": "#e8871e", "red": "#c9302c", "blue": "#2f7ed8", "text": "#8a8f98"}
# From nothing to much, for heat maps.
HEAT = [(48, 18, 59), (70, 107, 227), (40, 187, 235), (50, 241, 152), (164, 252, 60), (238, 207, 58), (251, 126, 33), (208, 47, 5), (122, 4, 3)]


def amount(value, unit):
    if unit == "s":
        for limit, scale, name in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min"), (math.inf, 1 / 3600, "h")):
            if value < limit:
                return "0" if value == 0 else f"{value * scale:.3g} {name}"
    bytes_of = unit in ("bytes", "Bps")
    for power, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.3g}{' ' if bytes_of else ''}{name}{'B' if bytes_of else ''}" + ("/s" if unit == "Bps" else "")
    return f"{value:.3g}" + {"bytes": " B", "Bps": " B/s"}.get(unit, "")


def short(text, pixels, size=10):
    most = max(int(pixels / (size * 0.56)), 1)
    return text if len(text) <= most else text[:most - 1] + "…"


def heat(share):
    at = min(max(share, 0), 1) * (len(HEAT) - 1)
    low, part = int(at), at - int(at)
    high = min(low + 1, len(HEAT) - 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(HEAT[low], HEAT[high]))


def threshold_color(panel, value):
    color = "green"
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            color = step["color"]
    return COLORS[color]


class Canvas:
    """Of one panel."""

    def __init__(self, out, x, y, width, height):
        self.out, self.x, self.y, self.width, self.height = out, x, y, width, height

    def rect(self, x, y, width, height, color, more=""):
        self.out.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" fill="{color}"{more}/>')

    def text(self, x, y, text, size=10, anchor="start", color="#444", weight=""):
        of = f' text-anchor="{anchor}"' if anchor != "start" else ""
        bold = f' font-weight="{weight}"' if weight else ""
        self.out.append(f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}"{of}{bold}>{escape(text)}</text>')

    def line(self, points, color, more=""):
        path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
        self.out.append(f'<path d="{path}" stroke="{color}"{more} fill="none"/>')


def series_of(answers):
    """(name, [(time, value)]) of all queries of a panel."""
    for answer in answers:
        for series in answer.result or []:
            points = [(float(at), float(value)) for at, value in series.get("values") or [series["value"]] if value not in ("NaN", "+Inf", "-Inf")]
            if points:
                yield legend(answer.target["legendFormat"], series["metric"]), points


def nice_ceiling(value):
    if value <= 0:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def plot_area(canvas):
    return canvas.x + 58, canvas.y + 26, canvas.width - 66, canvas.height - 26 - 34


def axes(canvas, asking, ticks, unit):
    """`ticks`: (height from 0 to 1, value)."""
    left, top, width, height = plot_area(canvas)
    for at, value in ticks:
        y = top + height * (1 - at)
        canvas.line([(left, y), (left + width, y)], "#e3e5e8")
        canvas.text(left - 5, y + 3, amount(value, unit), 9, "end", "#777")
    for part in range(5):
        minutes = asking.seconds / 60 * (1 - part / 4)
        canvas.text(left + width * part / 4, top + height + 12, "now" if part == 4 else f"-{minutes:.3g} min", 9, "end" if part == 4 else "middle" if part else "start", "#777")


def legends(canvas, named):
    x = canvas.x + 10
    for name, color in named:
        need = 16 + len(name) * 5.4
        if x + need > canvas.x + canvas.width - 20:
            canvas.text(x, canvas.y + canvas.height - 6, "…", 9)
            return
        canvas.rect(x, canvas.y + canvas.height - 13, 8, 8, color)
        canvas.text(x + 11, canvas.y + canvas.height - 6, name, 9)
        x += need + 6


def draw_lines(canvas, panel, answers, asking):
    series = list(series_of(answers))
    if not series:
        return nothing(canvas)
    defaults = panel["fieldConfig"]["defaults"]
    custom, unit = defaults["custom"], defaults["unit"]
    left, top, width, height = plot_area(canvas)
    logarithmic = custom["scaleDistribution"]["type"] == "log"
    stacked = custom["stacking"]["mode"] == "normal"
    base = {}
    drawn = []
    for name, points in series:
        if stacked:
            shifted = [(at, value + base.get(at, 0), base.get(at, 0)) for at, value in points]
            base.update({at: above for at, above, _ in shifted})
        else:
            shifted = [(at, value, 0) for at, value in points]
        drawn.append((name, shifted))
    largest = max(value for _, points in drawn for _, value, _ in points)
    if logarithmic:
        least = min(value for _, points in drawn for _, value, _ in points if value > 0)
        bottom, above = math.floor(math.log10(least)), max(math.ceil(math.log10(largest)), math.floor(math.log10(least)) + 1)
        scale = lambda value: (math.log10(value) - bottom) / (above - bottom) if value > 0 else 0
        ticks = [((power - bottom) / (above - bottom), 10.0 ** power) for power in range(bottom, above + 1)]
    else:
        ceiling = nice_ceiling(largest)
        scale = lambda value: value / ceiling
        ticks = [(part / 4, ceiling * part / 4) for part in range(5)]
    axes(canvas, asking, ticks, unit)
    start = asking.end - asking.seconds
    place = lambda at, value: (left + width * (at - start) / asking.seconds, top + height * (1 - min(scale(value), 1)))
    if custom["thresholdsStyle"]["mode"] == "line":
        for step in defaults["thresholds"]["steps"]:
            if step["value"] is not None and scale(step["value"]) <= 1:
                y = place(start, step["value"])[1]
                canvas.line([(left, y), (left + width, y)], COLORS[step["color"]], ' stroke-dasharray="5 4"')
    for number, (name, points) in enumerate(drawn):
        color = PALETTE[number % len(PALETTE)]
        if custom["drawStyle"] == "bars":
            for at, value, low in points:
                x, y = place(at, value)
                if value > low:
                    canvas.rect(x - 2, y, 4, top + height - y, color)
            continue
        if stacked:
            edge = [place(at, value) for at, value, _ in points] + [place(at, low) for at, _, low in reversed(points)]
            canvas.out.append('<path d="M' + "L".join(f"{x:.0f} {y:.0f}" for x, y in edge) + f'Z" fill="{color}" fill-opacity=".35"/>')
        canvas.line([place(at, value) for at, value, _ in points], color, ' stroke-width="1.6"')
    legends(canvas, [(name or "value", PALETTE[number % len(PALETTE)]) for number, (name, _) in enumerate(drawn)])
    return None


def draw_heatmap(canvas, panel, answers, asking):
    """Buckets of Prometheus hold what is below them too."""
    buckets = []
    for answer in answers:
        for series in answer.result or []:
            buckets.append((float(series["metric"]["le"]), {float(at): float(value) for at, value in series["values"]}))
    buckets.sort(key=lambda bucket: bucket[0])
    cells, used = [], set()
    for number, (_, values) in enumerate(buckets):
        below = buckets[number - 1][1] if number else {}
        for at, value in values.items():
            events = value - below.get(at, 0)
            if events > 1e-6:
                cells.append((number, at, events))
                used.add(number)
    if not cells:
        return nothing(canvas)
    first, last = min(used), max(used)
    left, top, width, height = plot_area(canvas)
    rows = last - first + 1
    axes(canvas, asking, [((number - first + 1) / rows, buckets[number][0]) for number in range(first, last + 1) if math.isfinite(buckets[number][0]) and (number - first) % max(rows // 7, 1) == 0], "s")
    most = max(events for _, _, events in cells)
    start, wide = asking.end - asking.seconds, max(width * asking.step / asking.seconds, 1)
    for number, at, events in cells:
        x = left + width * (at - start) / asking.seconds - wide
        y = top + height * (1 - (number - first + 1) / rows)
        if x >= left - 1:
            canvas.rect(x, y, math.ceil(wide), math.ceil(height / rows), heat(math.sqrt(events / most)))
    canvas.text(canvas.x + 10, canvas.y + canvas.height - 6, f"events of a step: up to {amount(most, 'short')}", 9)
    return None


def draw_stat(canvas, panel, answers, asking):
    series = list(series_of(answers))
    if not series:
        return nothing(canvas)
    points = series[0][1]
    value = points[-1][1]
    color = threshold_color(panel, value)
    canvas.rect(canvas.x, canvas.y, canvas.width, canvas.height, color, ' rx="3"')
    canvas.text(canvas.x + 8, canvas.y + 17, panel["title"], 11, color="#fff", weight="bold")
    most = max(value for _, value in points) or 1
    start = asking.end - asking.seconds
    canvas.line([(canvas.x + canvas.width * (at - start) / asking.seconds, canvas.y + canvas.height - 4 - 30 * value / most) for at, value in points], "#fff", ' stroke-opacity=".6"')
    canvas.text(canvas.x + canvas.width / 2, canvas.y + canvas.height / 2 + 16, amount(value, panel["fieldConfig"]["defaults"]["unit"]), 26, "middle", "#fff", "bold")
    return None


def draw_states(canvas, panel, answers, asking):
    series = list(series_of(answers))
    if not series:
        return nothing(canvas)
    defaults = panel["fieldConfig"]["defaults"]
    named = {float(value): (shown["text"], COLORS[shown["color"]]) for mapping in defaults["mappings"] for value, shown in mapping["options"].items()}
    left, top, width, height = canvas.x + 130, canvas.y + 28, canvas.width - 140, canvas.height - 46
    each = min(height / len(series), 26)
    start = asking.end - asking.seconds
    for number, (name, points) in enumerate(series):
        y = top + number * each
        canvas.text(left - 6, y + each / 2 + 3, short(name, 120), 10, "end")
        runs = []
        for at, value in points:
            if runs and runs[-1][2] == value:
                runs[-1][1] = at
            else:
                runs.append([at, at, value])
        for begun, ended, value in runs:
            text, color = named.get(value) or (amount(value, defaults["unit"]), threshold_color(panel, value))
            x = left + width * max(begun - asking.step - start, 0) / asking.seconds
            to = left + width * (ended - start) / asking.seconds
            canvas.rect(x, y + 2, max(to - x, 1), each - 4, color)
            if to - x > len(text) * 6 + 8:
                canvas.text(x + 4, y + each / 2 + 3, text, 9, color="#fff")
    return None


def draw_bars(canvas, panel, answers, asking):
    series = sorted(series_of(answers))
    if not series:
        return nothing(canvas)
    left, top, width, height = canvas.x + 90, canvas.y + 28, canvas.width - 170, canvas.height - 36
    most = max(points[-1][1] for _, points in series) or 1
    each = min(height / len(series), 26)
    for number, (name, points) in enumerate(series):
        y = top + number * each
        canvas.text(left - 6, y + each / 2 + 3, name, 10, "end")
        canvas.rect(left, y + 2, width, each - 4, "#eef0f2")
        canvas.rect(left, y + 2, max(width * points[-1][1] / most, 1), each - 4, threshold_color(panel, points[-1][1]))
        canvas.text(left + width + 6, y + each / 2 + 3, amount(points[-1][1], panel["fieldConfig"]["defaults"]["unit"]), 10)
    return None


def draw_table(canvas, panel, answers, asking):
    organized = panel["transformations"][0]["options"]
    names = sorted((name for name in organized["indexByName"] if name not in organized["excludeByName"]), key=organized["indexByName"].get)
    rows = [[series["metric"].get(name, "") for name in names] for answer in answers for series in answer.result or []]
    if not rows:
        return nothing(canvas)
    wide = (canvas.width - 20) / len(names)
    for column, name in enumerate(names):
        canvas.text(canvas.x + 10 + column * wide, canvas.y + 38, organized["renameByName"].get(name, name), 10, weight="bold")
    for number, row in enumerate(sorted(rows)[:int((canvas.height - 50) / 16)]):
        for column, cell in enumerate(row):
            canvas.text(canvas.x + 10 + column * wide, canvas.y + 56 + number * 16, short(cell, wide - 8), 10)
    return None


def nothing(canvas):
    canvas.text(canvas.x + canvas.width / 2, canvas.y + canvas.height / 2 + 8, "No data", 12, "middle", "#999")


DRAW = {"timeseries": draw_lines, "heatmap": draw_heatmap, "stat": draw_stat, "state-timeline": draw_states, "bargauge": draw_bars, "table": draw_table}


def draw(asking):
    model = asking.board.model
    answers = {}
    for answer in asking.answers():
        answers.setdefault(answer.panel["id"], []).append(answer)
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in model["panels"])
    width, height = 24 * COLUMN + MARGIN, bottom * UNIT + MARGIN + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">',
           f'<rect width="{width}" height="{height}" fill="#f4f5f7"/>',
           f'<text x="{MARGIN}" y="22" font-size="16" font-weight="bold" fill="#222">{escape(model["title"])}</text>']
    for panel in model["panels"]:
        grid = panel["gridPos"]
        x, y = grid["x"] * COLUMN + MARGIN, grid["y"] * UNIT + MARGIN + 26
        canvas = Canvas(out, x, y, grid["w"] * COLUMN - MARGIN, grid["h"] * UNIT - MARGIN)
        if panel["type"] == "row":
            canvas.text(x, y + 16, panel["title"], 13, color="#222", weight="bold")
            continue
        if panel["type"] != "stat":
            canvas.rect(x, y, canvas.width, canvas.height, "#fff", ' rx="3" stroke="#dcdfe3"')
            canvas.text(x + 8, y + 17, panel["title"], 11, weight="bold")
        DRAW[panel["type"]](canvas, panel, answers.get(panel["id"], []), asking)
    return "\n".join(out) + "\n</svg>\n"
