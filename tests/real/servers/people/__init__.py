"""A noisy Meltano SDK tap as a package, which the SDK's older versions need it to be."""

import noise
from singer_sdk import Stream, Tap, typing as th


class People(Stream):
    name = "people"
    primary_keys = ("id",)
    schema = th.PropertiesList(th.Property("id", th.IntegerType), th.Property("name", th.StringType)).to_dict()

    def get_records(self, context):
        for number in range(3):
            if number == 1:
                noise.make("during")
            yield {"id": number, "name": "Zoë"}
        print("noise async print", end="", flush=True)


class NoisyTap(Tap):
    name = "tap-noisy"
    config_jsonschema = th.PropertiesList(th.Property("start", th.StringType)).to_dict()

    def discover_streams(self):
        return [People(self)]
