"""A noisy Airbyte source on airbyte-cdk: what it prints is noise, what it logs is protocol."""

import sys
import threading

import noise
from airbyte_cdk.entrypoint import launch
from airbyte_cdk.models import ConnectorSpecification, FailureType
from airbyte_cdk.sources import AbstractSource
from airbyte_cdk.sources.streams import Stream
from airbyte_cdk.utils.traced_exception import AirbyteTracedException


class People(Stream):
    name = "people"
    primary_key = "id"
    state_checkpoint_interval = 1

    def get_json_schema(self):
        return {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}

    def read_records(self, sync_mode, cursor_field=None, stream_slice=None, stream_state=None):
        for number in range(3):
            self.logger.info("row %d", number)
            if number == 1:
                noise.make("during")
                print("noise on stderr", file=sys.stderr)
                worker = threading.Thread(target=self.logger.info, args=("row seen by a thread",))
                worker.start()
                worker.join()
            yield {"id": number, "name": "Zoë" * 2000}
        print("noise async print", end="", flush=True)


class NoisySource(AbstractSource):
    def spec(self, logger):
        noise.make("during")
        properties = {"token": {"type": "string", "airbyte_secret": True}, "fail": {"type": "boolean"}}
        return ConnectorSpecification(connectionSpecification={"type": "object", "properties": properties})

    def check_connection(self, logger, config):
        logger.warning("checking")
        if config.get("fail"):
            raise AirbyteTracedException(message="it failed", failure_type=FailureType.system_error)
        return True, None

    def streams(self, config):
        return [People()]


noise.make("before")
try:
    launch(NoisySource(), sys.argv[1:])
finally:
    noise.make("after")
