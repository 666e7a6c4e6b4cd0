"""A noisy Meltano SDK target as a package: it writes its state on stdout, its records into a file."""

import json

import noise
from singer_sdk import Target, typing as th
from singer_sdk.sinks import RecordSink


class FileSink(RecordSink):
    def process_record(self, record, context):
        if record["id"] == 1:
            noise.make("during")
        with open(f"{self.stream_name}.jsonl", "a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")


class NoisyTarget(Target):
    name = "target-noisy"
    config_jsonschema = th.PropertiesList(th.Property("start", th.StringType)).to_dict()
    default_sink_class = FileSink
