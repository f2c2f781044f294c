"""Numbers, times and texts as the page shows them. What comes from a server or a broker may hold anything: nothing of it
reaches the terminal as a control sequence."""


def plain(text):
    return "".join(c if c.isprintable() else " " for c in str(text if text is not None else ""))


def count(value):
    """At most five characters."""
    if value is None:
        return ""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def seconds(value):
    if value is None:
        return ""
    if value < 10:
        return f"{value:.1f} s" if value else "0 s"
    if value < 120:
        return f"{value:.0f} s"
    if value < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.0f} h" if value < 172800 else f"{value / 86400:.0f} d"


def milliseconds(value):
    if value is None:
        return ""
    if value < 10:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 10000 else f"{value / 1000:.0f}s"


def octets(value):
    if value is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
