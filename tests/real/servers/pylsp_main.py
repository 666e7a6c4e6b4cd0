"""python-lsp-server started from a script of one's own."""

from pylsp.__main__ import main

main()
