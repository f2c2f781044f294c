"""A dashboard as Grafana reads it: its variables, and its queries with the variables put in."""
import json
import re

SCRAPE_SECONDS = 15  # what Grafana takes for the scrape interval where the data source names none
ALL = "$__all"


class Board:
    def __init__(self, file):
        with open(file, encoding="utf-8") as opened:
            self.model = json.load(opened)
        self.variables = {variable["name"]: variable for variable in self.model["templating"]["list"]}

    def panels(self):
        """Those that are drawn; of rows what is in them."""
        for panel in self.model["panels"]:
            if panel["type"] == "row":
                yield from panel["panels"]
            else:
                yield panel


def escaped(value):
    """As the Prometheus data source writes a value of a variable that may have several: as part of a regular expression in a
    string of PromQL."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value.replace("\\", "\\\\\\\\"))


def value_of(variable, chosen):
    """What is put in for a variable: all, one or several."""
    if chosen == [ALL]:
        return variable["allValue"]
    values = [escaped(value) for value in chosen]
    return values[0] if len(values) == 1 else "(" + "|".join(values) + ")"


def interval_text(seconds):
    return f"{int(seconds * 1000)}ms" if seconds < 1 or seconds != int(seconds) else f"{int(seconds)}s"


def put_in(expression, values, step, scrape=SCRAPE_SECONDS):
    """`values`: what is put in, by variable. The rate interval is four scrapes at least."""
    known = dict(values, __interval=interval_text(step), __rate_interval=interval_text(max(step + scrape, 4 * scrape)))
    text = re.sub(r"\$\{(\w+)\}|\$(\w+)", lambda match: known[match.group(1) or match.group(2)], expression)
    return text


def legend(form, labels):
    if not form:
        return "{" + ", ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name != "__name__") + "}"
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match.group(1), ""), form).strip()
