"""Reads a checkout of the specification's own conformance tests (github.com/cloudevents/conformance) and prints its events as lines of JSON:
{name, mode, attributes, data, headers, record}. The scenarios of Kafka's binding have a record, of which they tell a reader's attributes; here
it is the other way round."""
import base64
import json
import pathlib
import sys

import yaml
from gherkin.parser import Parser
from gherkin.pickles.compiler import Compiler

there = pathlib.Path(sys.argv[1])


def put(name, mode, attributes, data, headers=None, record=None):
    print(json.dumps({"name": name, "mode": mode, "attributes": attributes, "data": base64.b64encode(data.encode()).decode(),
                      "headers": headers or {}, "record": record}), flush=True)


def table(step):
    rows = [[cell["value"] for cell in row["cells"]] for row in step["argument"]["dataTable"]["rows"]]
    return dict(rows[1:])


feature = Parser().parse((there / "features/kafka-protocol-binding.feature").read_text())
feature["uri"] = "kafka-protocol-binding.feature"
for scenario in Compiler().compile(feature):
    steps = {step["text"].rstrip(":"): step for step in scenario["steps"]}
    value = steps["a Kafka message with payload"]["argument"]["docString"]["content"]
    headers = table(steps["Kafka headers"])
    put(scenario["name"], "structured" if "ce_id" not in headers else "binary", table(steps["the attributes are"]),
        steps["the data is equal to the following JSON"]["argument"]["docString"]["content"], record={"headers": headers, "value": value})

for file in sorted((there / "yaml").glob("**/v1*.yaml")):
    for number, event in enumerate(yaml.load_all(file.read_text(), yaml.BaseLoader), 1):
        attributes = event["ContextAttributes"]
        put(f"{file.name} {number}", event.get("Mode", "any"), {**attributes.pop("Extensions", {}), **attributes}, event["Data"],
            event.get("TransportExtensions"))
