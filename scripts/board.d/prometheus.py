"""Questions to a Prometheus."""
import json
import urllib.error
import urllib.parse
import urllib.request


class Prometheus:
    def __init__(self, url):
        self.url = url.rstrip("/")

    def ask(self, what, **parameters):
        data = urllib.parse.urlencode(parameters, doseq=True).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{what}", data if what.startswith("query") else None, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from error

    def instant(self, query, at):
        return self.ask("query", query=query, time=at)["result"]

    def range(self, query, start, end, step):
        return self.ask("query_range", query=query, start=start, end=end, step=step)["result"]

    def label_values(self, selector, label):
        found = self.ask("query", query=f"group by ({label}) ({selector})")["result"]
        return sorted(row["metric"].get(label, "") for row in found)
