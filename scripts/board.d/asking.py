"""Runs the queries of a board against a Prometheus."""
import re
import time
from dataclasses import dataclass
from typing import List, Optional

from grafana import ALL, Board, put_in, value_of


@dataclass
class Answer:
    panel: dict
    target: dict
    query: str  # with the variables put in
    result: Optional[list]  # as Prometheus gives it; None: it was refused
    error: str = ""

    def values(self):
        for series in self.result or []:
            for _, value in series.get("values") or [series["value"]]:
                if value not in ("NaN", "+Inf", "-Inf"):
                    yield float(value)

    def largest(self):
        return max(self.values(), default=None)


class Asking:
    def __init__(self, file, prometheus, chosen, seconds, scrape, points=120):
        self.board = Board(file)
        self.prometheus = prometheus
        self.end = time.time()
        self.seconds = seconds
        self.scrape = scrape
        self.step = max(seconds / points, scrape)
        self.values = {name: value_of(variable, chosen.get(name) or [ALL])
                       for name, variable in self.board.variables.items() if variable["type"] == "query"}

    def options(self, name):
        """What a variable offers: its own query, with those before it put in."""
        query = put_in(self.board.variables[name]["query"]["query"], self.values, self.step, self.scrape)
        selector, label = re.fullmatch(r"label_values\((.*), *(\w+)\)", query).groups()
        return self.prometheus.label_values(selector, label)

    def answers(self) -> List[Answer]:
        return [self.answer(panel, target) for panel in self.board.panels() for target in panel["targets"]]

    def answer(self, panel, target):
        query = put_in(target["expr"], self.values, self.step, self.scrape)
        try:
            if target["instant"]:
                result = self.prometheus.instant(query, self.end)
            else:
                result = self.prometheus.range(query, self.end - self.seconds, self.end, self.step)
        except ValueError as error:
            return Answer(panel, target, query, None, str(error))
        return Answer(panel, target, query, result)
