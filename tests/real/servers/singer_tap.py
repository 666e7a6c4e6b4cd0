"""A noisy Singer tap on singer-python; its fork pipelinewise-singer-python has the same interface."""

import noise
import singer
from singer.catalog import Catalog, CatalogEntry, write_catalog

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


def discover():
    entry = CatalogEntry(tap_stream_id="people", stream="people", schema=singer.Schema.from_dict(SCHEMA), metadata=[])
    write_catalog(Catalog([entry]))


def sync():
    singer.write_schema("people", SCHEMA, ["id"])
    for number in range(3):
        if number == 1:
            noise.make("during")
        singer.write_record("people", {"id": number, "name": "Zoë"})
    print("noise async print", end="", flush=True)
    singer.write_state({"people": 2})


noise.make("before")
arguments = singer.utils.parse_args([])
discover() if arguments.discover else sync()
noise.make("after")
