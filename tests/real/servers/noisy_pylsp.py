"""A plugin of python-lsp-server which makes noise while it answers."""

import noise
from pylsp import hookimpl


@hookimpl
def pylsp_document_symbols(config, workspace, document):
    noise.make("during")
    return []
