"""The command: check, draw and types."""
import argparse
import sys

from asking import Asking
from drawing import draw
from prometheus import Prometheus
import types_of_grafana


def main(file):
    parser = argparse.ArgumentParser(prog="board", description="The Grafana board without Grafana.")
    parser.add_argument("do", choices=["check", "draw", "types"])
    parser.add_argument("url", help="of a Prometheus; with types: another board's file", nargs="?")
    parser.add_argument("svg", nargs="?", help="file to draw into")
    parser.add_argument("--minutes", type=float, default=15, help="how far back (15)")
    parser.add_argument("--scrape", type=float, default=15, metavar="SECONDS", help="the scrape interval that the data source is told of (15)")
    parser.add_argument("--database", action="append", help="instead of All")
    parser.add_argument("--route", action="append", help="instead of All")
    asked = parser.parse_args()
    if asked.do == "types":
        sys.exit(types_of_grafana.check(asked.url or file))
    if not asked.url:
        parser.error("the URL of a Prometheus is missing")
    if (asked.do == "draw") != bool(asked.svg):
        parser.error("draw takes a file, check takes none")
    asking = Asking(file, Prometheus(asked.url), {"database": asked.database, "route": asked.route}, asked.minutes * 60, asked.scrape)
    if asked.do == "draw":
        with open(asked.svg, "w", encoding="utf-8") as out:
            out.write(draw(asking))
    else:
        sys.exit(check(asking))


def largest_text(answer):
    largest = answer.largest()
    return "nothing" if largest is None else f"{largest:g}"


def check(asking):
    """Every query, the largest value that it gives, and how many say nothing."""
    empty = 0
    for name in asking.values:
        options = asking.options(name)
        empty += not options
        print(f"{'ok' if options else 'EMPTY'}\t${name}\t{', '.join(options)}")
    for answer in asking.answers():
        verdict = "REFUSED" if answer.result is None else "ok" if answer.largest() is not None else "EMPTY"
        empty += verdict != "ok"
        said = answer.error if answer.result is None else f"{len(answer.result)} series, at most {largest_text(answer)}"
        print(f"{verdict}\t{answer.panel['title']} {answer.target['refId']}\t{said}" + ("" if verdict == "ok" else f"\t{answer.query}"))
    print(f"{empty} say nothing" + (": what has not happened yet has no figures (a delivery, a refusal, a parked event)" if empty else ""))
    return 1 if empty else 0
