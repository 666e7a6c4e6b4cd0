"""A noisy Airbyte destination: it reads records from stdin and answers with the states it has stored."""

import sys

import noise
from airbyte_cdk.destinations import Destination
from airbyte_cdk.models import AirbyteConnectionStatus, ConnectorSpecification, Status, Type


class NoisyDestination(Destination):
    def spec(self, *args, **kwargs):
        return ConnectorSpecification(connectionSpecification={"type": "object", "properties": {}})

    def check(self, logger, config):
        return AirbyteConnectionStatus(status=Status.SUCCEEDED)

    def write(self, config, configured_catalog, input_messages):
        with open("stored.txt", "w", encoding="utf-8") as stored:
            for message in input_messages:
                if message.type == Type.RECORD:
                    noise.make("during")
                    stored.write(f"{message.record.data['id']}\n")
                elif message.type == Type.STATE:
                    yield message
        print("noise async print", end="", flush=True)


noise.make("before")
NoisyDestination().run(sys.argv[1:])
noise.make("after")
